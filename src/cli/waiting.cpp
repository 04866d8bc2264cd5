#include "cli/waiting.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arguments.h"
#include "base/error_text.h"
#include "cli/commands/commands.h"

namespace softib::cli {

namespace {

constexpr int passed_on[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

// Read by the handler: filled before that is installed, and never changed while it is.
std::vector<pid_t> children;

void pass_on(int signal, siginfo_t* info, void*) {
  if (info->si_code > 0) return;
  const int kept = errno;
  for (pid_t child : children) ::kill(child, signal);
  errno = kept;
}

// In the same way, so that who waits for this process learns the same.
[[noreturn]] void die_of(int signal) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::kill(::getpid(), signal);
  ::_exit(128 + signal);
}

}  // namespace

int wait_status_of(pid_t pid) {
  int status = 0;
  pid_t ended;
  do ended = ::waitpid(pid, &status, 0);
  while (ended < 0 && errno == EINTR);
  return status;
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int execute(const std::vector<std::string>& command) {
  const std::vector<char*> arguments = argument_pointers(command);
  ::execvp(arguments[0], arguments.data());
  int error = errno;
  return complain(fmt::format("cannot run '{}': {}", command[0], error_text(error)),
                  error == ENOENT ? not_found : not_executable);
}

void pass_signals_to(const std::vector<pid_t>& pids) {
  children = pids;
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (int signal : passed_on) ::sigaction(signal, &action, nullptr);
}

int wait_for_child(const std::vector<std::string>& command) {
  sigset_t held;
  sigset_t before;
  sigemptyset(&held);
  for (int signal : passed_on) sigaddset(&held, signal);
  ::sigprocmask(SIG_BLOCK, &held, &before);
  const pid_t pid = ::fork();
  if (pid < 0) return complain(fmt::format("cannot start a process: {}", error_text()), run_failed);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::_exit(execute(command));
  }
  pass_signals_to({pid});
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  const int status = wait_status_of(pid);
  if (WIFSIGNALED(status)) die_of(WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace softib::cli
