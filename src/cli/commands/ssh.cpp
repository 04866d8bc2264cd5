#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/launchers.h"
#include "cli/place.h"
#include "cli/session.h"
#include "cli/session_folder.h"
#include "fabric/runtime.h"

namespace softib::cli {

namespace {

constexpr const char* about_ssh =
    R"(softib ssh [SSH OPTIONS] HOST [COMMAND...]

Behaves as ssh does for launchers and scripts: the words behind HOST are joined and given to the user's shell, which
begins in the home folder; exit code and streams are the command's, and 255 tells that there was no session. Options of
ssh are taken and have no effect, but -n and -f; forwarding (-L, -R, -D, -W) and subsystems are refused. HOST may be any
name or address that the fabric's hosts have. Other than with sshd, the environment is kept, but for what belongs to a
running job (OMPI_..., PMI_..., HYDRA_...). Launchers that want one word for it take softib-ssh, which 'softib env' and
'softib run' tell them.

Examples:
  softib ssh host1 hostname
  softib ssh -x -q host1 'cd /tmp && ls')";

// The fabric is the one that the caller is on; from elsewhere it is `default`, or what --name says.
std::string take_fabric(std::vector<std::string>& words) {
  if (words.size() >= 2 && words[0] == "--name") {
    std::string name = words[1];
    words.erase(words.begin(), words.begin() + 2);
    return name;
  }
  const char* dir = std::getenv("SOFTIB_FABRIC_DIR");
  if (!dir) return "default";
  const std::filesystem::path path(dir);
  ::setenv("SOFTIB_RUNTIME_DIR", path.parent_path().c_str(), 1);
  return path.filename();
}

// What the caller's job has set for itself is not for the processes that it starts elsewhere.
void leave_job() {
  std::vector<std::string> names;
  for (char** variable = ::environ; *variable; ++variable) {
    const std::string_view text = *variable;
    if (belongs_to_job(text)) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

std::vector<std::string> session_command(const SshRequest& request) {
  const passwd* user = ::getpwuid(::geteuid());
  const std::string shell = user && user->pw_shell && *user->pw_shell ? user->pw_shell : "/bin/sh";
  if (request.command.empty()) return {shell, "-l"};
  return {shell, "-c", request.command};
}

int refuse_session(std::string_view text) {
  fmt::print(stderr, "ssh: {}\n", text);
  return ssh_failed;
}

void go_home() {
  const char* home = std::getenv("HOME");
  if (!home || ::chdir(home) < 0) (void)!::chdir("/");
}

// As -n and -f of ssh. False: this process has done its part.
bool detach(const SshRequest& request) {
  if (request.no_input)
    if (const int null = ::open("/dev/null", O_RDONLY); null >= 0) ::dup2(null, STDIN_FILENO);
  return !request.in_background || ::fork() <= 0;
}

}  // namespace

int run_ssh(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  const std::string name = take_fabric(words);
  auto request = parse_ssh(words);
  if (!request) return refuse_session(request.error().text);
  auto dir = running_folder(name);
  if (!dir) return refuse_session(dir.error().text);
  if (auto names = fabric::read_file(*dir + "/etc/hosts")) request->host = host_of(*names, request->host);
  auto host = host_environment(name, request->host);
  if (!host) return refuse_session(host.error().text);
  leave_job();
  go_home();
  if (!detach(*request)) return 0;
  const int code = become_on_host(*host, session_command(*request));
  return code == run_failed ? ssh_failed : code;
}

void add_ssh(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("ssh", "Run a command on a host as ssh would: for mpirun and its like");
  command->footer(about_ssh);
  command->callback([&exit_code] { exit_code = run_ssh({}); });
}

}  // namespace softib::cli
