#include "daemon/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/arguments.h"

namespace softib::daemon {

namespace {

// What softibd's own environment says of these does not hold for the child.
bool is_replaced(std::string_view variable, const std::vector<std::string>& ours) {
  const std::string_view name = variable.substr(0, variable.find('=') + 1);
  return std::any_of(ours.begin(), ours.end(), [name](const std::string& own) { return own.starts_with(name); });
}

std::vector<std::string> whole_environment(const std::vector<std::string>& ours) {
  std::vector<std::string> words = ours;
  for (char** variable = ::environ; *variable; ++variable)
    if (!is_replaced(*variable, ours)) words.emplace_back(*variable);
  return words;
}

// softibd has other things in these places, so they are first brought out of the way.
bool place_descriptors(const Launch& launch) {
  constexpr int out_of_the_way = 10;
  int input = launch.input >= 0 ? launch.input : ::open("/dev/null", O_RDONLY);
  int output = launch.output.empty() ? STDERR_FILENO
                                     : ::open(launch.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  input = ::fcntl(input, F_DUPFD, out_of_the_way);
  output = ::fcntl(output, F_DUPFD, out_of_the_way);
  const int third = launch.third >= 0 ? ::fcntl(launch.third, F_DUPFD, out_of_the_way) : -1;
  if (input < 0 || output < 0 || (launch.third >= 0 && third < 0)) return false;
  if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) return false;
  if (third >= 0 && ::dup2(third, 3) < 0) return false;
  ::syscall(SYS_close_range, third >= 0 ? 4U : 3U, ~0U, 0U);
  return true;
}

// In the child: nothing but plain system calls between fork and exec.
[[noreturn]] void become(const Launch& launch, char* const* arguments, char* const* environment, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, launch.death_signal);
  if (::getppid() != parent) ::_exit(1);  // softibd died before that
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  if (place_descriptors(launch) && ::chdir(launch.folder.c_str()) == 0) ::execve(arguments[0], arguments, environment);
  const char* why = ::strerrordesc_np(errno);
  if (::write(2, why, std::strlen(why)) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

Result<ChildProcess> launch(const Launch& launch) {
  const auto variables = whole_environment(launch.environment);
  const auto argv = argument_pointers(launch.arguments);
  const auto envp = argument_pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail(errno);
  if (pid == 0) become(launch, argv.data(), envp.data(), parent);
  return ChildProcess{pid, Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
}

Result<void> OwnedProcess::start(const Launch& what) {
  auto child = launch(what);
  if (!child) return fail(to_int(child.error()));
  pid = child->pid;
  handle = std::move(child->handle);
  ended.reset();
  return {};
}

bool OwnedProcess::signal(int number) const { return runs() && ::kill(-pid, number) == 0; }

bool OwnedProcess::wait_for_end(std::chrono::milliseconds limit) {
  if (!runs()) return true;
  pollfd end{handle.get(), POLLIN, 0};
  const int wait = static_cast<int>(limit.count());
  while (handle && ::poll(&end, 1, wait) < 0 && errno == EINTR) continue;
  return take_end();
}

bool OwnedProcess::take_end() {
  int status = 0;
  if (!runs() || ::waitpid(pid, &status, WNOHANG) != pid) return false;
  ended = status;
  handle.reset();
  return true;
}

std::string how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("signal {} ({})", WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace softib::daemon
