#include "perf/launch/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "base/arguments.h"

namespace softib::perf {

namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> new_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// In the child, between fork and exec: nothing but system calls.
[[noreturn]] void become(char* const* words, char* const* environment, std::array<int, 3> streams, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int target = 0; target < 3; ++target)
    if (::dup2(streams[static_cast<std::size_t>(target)], target) < 0) ::_exit(126);
  ::execvpe(words[0], words, environment);
  constexpr const char* complaint = ": cannot be executed\n";
  [[maybe_unused]] const ssize_t said = ::write(2, words[0], std::strlen(words[0]));
  [[maybe_unused]] const ssize_t more = ::write(2, complaint, std::strlen(complaint));
  ::_exit(127);
}

std::vector<std::string> whole_environment(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

}  // namespace

Result<LaunchedProcess> LaunchedProcess::start(const std::vector<std::string>& words,
                                               const std::vector<std::string>& variables) {
  auto input = new_pipe();
  auto output = new_pipe();
  auto errors = new_pipe();
  if (!input || !output || !errors) return fail(EMFILE);
  const std::vector<std::string> environment = whole_environment(variables);
  const auto word_pointers = argument_pointers(words);
  const auto variable_pointers = argument_pointers(environment);
  const pid_t parent = ::getpid();
  LaunchedProcess process;
  process.id_ = ::fork();
  if (process.id_ < 0) return fail(errno);
  if (process.id_ == 0)
    become(word_pointers.data(), variable_pointers.data(),
           {input->read.get(), output->write.get(), errors->write.get()}, parent);
  ::setpgid(process.id_, process.id_);  // whoever is first
  for (const int end : {output->read.get(), errors->read.get()}) ::fcntl(end, F_SETFL, O_NONBLOCK);
  process.input_ = std::move(input->write);
  process.output_ = std::move(output->read);
  process.errors_ = std::move(errors->read);
  return process;
}

void LaunchedProcess::look() {
  int status = 0;
  if (has_ended() || ::waitpid(id_, &status, WNOHANG) != id_) return;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void LaunchedProcess::signal(int number) const {
  if (!has_ended()) ::kill(-id_, number);
}

bool LaunchedProcess::read_from(Fd& stream, std::string& held) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(stream.get(), buffer.data(), buffer.size());
    if (got > 0) {
      held.append(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    stream.reset();
    return false;
  }
}

}  // namespace softib::perf
