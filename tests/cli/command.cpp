#include "command.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace softib::test {

namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// A zombie has ended.
bool is_running(pid_t pid) {
  std::string stat = read_all("/proc/" + std::to_string(pid) + "/stat");
  size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat[name_end + 2] != 'Z' && stat[name_end + 2] != 'X';
}

bool ends_soon(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    if (!is_running(pid)) return true;
    ::usleep(10'000);
  }
  return false;
}

CommandTest::CommandTest() {
  for (const char* name : {"SOFTIB_FABRIC_DIR", "SOFTIB_HOST", "LD_PRELOAD"}) ::unsetenv(name);
  ::setenv("SOFTIB", SOFTIB_COMMAND, 1);
  ::setenv("SOFTIB_NAMESPACES", "off", 1);  // but where a test is about them
  set_runtime(dir_ / "run");
  if (::mkdir(runtime_.c_str(), 0700) < 0) throw std::runtime_error("mkdir");
}

CommandTest::~CommandTest() { softib({"down", "--all"}); }

void CommandTest::set_runtime(const std::string& path) {
  runtime_ = path;
  ::setenv("SOFTIB_RUNTIME_DIR", path.c_str(), 1);
}

Outcome CommandTest::shell(const std::string& line) {
  std::string script = "exec >" + quoted(dir_ / "out") + " 2>" + quoted(dir_ / "err") + "\n" + line;
  pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    ::_exit(255);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome.out = read_all(dir_ / "out");
  outcome.err = read_all(dir_ / "err");
  return outcome;
}

Outcome CommandTest::softib(const std::vector<std::string>& words) {
  std::string line = "exec \"$SOFTIB\"";
  for (const std::string& word : words) line += " " + quoted(word);
  return shell(line);
}

pid_t CommandTest::daemon(const std::string& name) const {
  return static_cast<pid_t>(std::atol(read_all(fabric_dir(name) + "/daemon.pid").c_str()));
}

void CommandTest::write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }

}  // namespace softib::test
