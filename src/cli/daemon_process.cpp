#include "cli/daemon_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/error_text.h"
#include "base/fd.h"
#include "cli/environment.h"
#include "cli/installation.h"
#include "cli/log_tail.h"
#include "fabric/error.h"
#include "fabric/runtime.h"
#include "ipc/client.h"

namespace softib::cli {

namespace {

using fabric::refuse;

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto start_limit = 120s;  // a fabric of thousands of ports has as many folders to write
constexpr auto stop_limit = 30s;    // and to take away
constexpr auto kill_limit = 5s;
constexpr auto poll_interval = 5ms;
constexpr size_t shown_log_lines = 10;

struct Command {
  std::string program;
  std::string dir;
  std::string log;
  std::vector<const char*> arguments;
};

// In the child: nothing but plain system calls between fork and exec.
[[noreturn]] void become_daemon(const Command& command, const Interrupts& interrupts, int failure_pipe) {
  interrupts.forget_in_child();
  ::setsid();
  int null = ::open("/dev/null", O_RDONLY);
  int log = ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  bool ready =
      null >= 0 && log >= 0 && ::chdir("/") == 0 && ::dup2(null, 0) >= 0 && ::dup2(log, 1) >= 0 && ::dup2(log, 2) >= 0;
  if (ready) {
    // Nobody must wait for the end of a pipe or file that `softib up` had open.
    int kept = ::dup2(failure_pipe, 3);
    ::fcntl(kept, F_SETFD, FD_CLOEXEC);
    ::syscall(SYS_close_range, 4U, ~0U, 0U);
    failure_pipe = kept;
    ::execv(command.program.c_str(), const_cast<char**>(command.arguments.data()));
  }
  int error = errno;
  if (::write(failure_pipe, &error, sizeof error) < 0) ::_exit(126);
  ::_exit(127);
}

fabric::Parsed<pid_t> launch(const Command& command, const Interrupts& interrupts) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return refuse(fmt::format("cannot make a pipe: {}", error_text()));
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  pid_t pid = ::fork();
  if (pid < 0) return refuse(fmt::format("cannot start a process: {}", error_text()));
  if (pid == 0) become_daemon(command, interrupts, write_end.get());
  write_end.reset();
  int error = 0;
  ssize_t got;
  do got = ::read(read_end.get(), &error, sizeof error);
  while (got < 0 && errno == EINTR);
  if (got == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  return refuse(fmt::format("cannot start {}: {}", command.program, error_text(error)));
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("died of signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

std::string with_log(std::string text, const Command& command) {
  std::string lines = tail_of_file(command.log, shown_log_lines, "  ");
  if (lines.empty()) return text + fmt::format("; {} is empty", command.log);
  lines.pop_back();
  return text + fmt::format("; the end of {}:\n{}", command.log, lines);
}

fabric::Parsed<void> wait_until_ready(pid_t pid, const Command& command, Interrupts& interrupts) {
  auto deadline = Clock::now() + start_limit;
  while (Clock::now() < deadline && !interrupts.came_within(poll_interval)) {
    if (ipc::Client::connect(command.dir)) return {};
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return refuse(with_log("the daemon " + how_it_ended(status), command));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  if (interrupts.came_within(0ns)) return refuse("interrupted");
  return refuse(with_log(fmt::format("the daemon was not ready within {} s", start_limit.count()), command));
}

// By the daemon's own word, for when its socket is gone or dead; checked against the program that runs there.
std::optional<pid_t> pid_from_file(const std::string& dir) {
  auto text = fabric::read_file(dir + "/daemon.pid");
  if (!text) return std::nullopt;
  auto pid = static_cast<pid_t>(std::atol(text->c_str()));
  auto name = fabric::read_file(fmt::format("/proc/{}/comm", pid));
  if (pid <= 1 || !name || *name != "softibd\n") return std::nullopt;
  return pid;
}

bool gone_within(const std::string& dir, Clock::duration limit) {
  for (auto deadline = Clock::now() + limit; Clock::now() < deadline; std::this_thread::sleep_for(poll_interval))
    if (fabric::liveness(dir) != fabric::Liveness::running) return true;
  return false;
}

}  // namespace

fabric::Parsed<pid_t> start_daemon(const std::string& dir, const std::vector<std::string>& options,
                                   Interrupts& interrupts) {
  auto program = find_daemon();
  if (!program) return refuse(program.error().text);
  apply(outside_environment());  // when called from inside a fabric, the new daemon is not on one of its hosts
  Command command{*program, dir, dir + "/daemon.log", {program->c_str(), "--dir", dir.c_str()}};
  for (const std::string& option : options) command.arguments.push_back(option.c_str());
  command.arguments.push_back(nullptr);
  auto pid = launch(command, interrupts);
  if (!pid) return pid;
  if (auto ready = wait_until_ready(*pid, command, interrupts); !ready) return refuse(ready.error().text);
  return pid;
}

std::optional<pid_t> daemon_pid(const std::string& dir) {
  auto client = ipc::Client::connect(dir);
  if (!client) return pid_from_file(dir);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt((*client)->fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 1) return std::nullopt;
  return peer.pid;
}

fabric::Parsed<void> stop_daemon(const std::string& dir) {
  std::optional<pid_t> pid = daemon_pid(dir);
  // One whose `softib up` was killed is still starting.
  for (auto deadline = Clock::now() + stop_limit; !pid && Clock::now() < deadline; pid = daemon_pid(dir)) {
    if (fabric::liveness(dir) != fabric::Liveness::running) return {};
    std::this_thread::sleep_for(poll_interval);
  }
  if (!pid)
    return refuse(fmt::format("cannot tell which process the daemon of {} is; is it in another container?", dir));
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
  if (::kill(*pid, SIGTERM) < 0 && errno != ESRCH)
    return refuse(fmt::format("cannot end the daemon (process {}): {}", *pid, error_text()));
  ::kill(*pid, SIGCONT);  // a stopped process sees no SIGTERM
  bool gone = gone_within(dir, stop_limit);
  if (!gone) {
    ::kill(*pid, SIGKILL);
    gone = gone_within(dir, kill_limit);
  }
  if (!gone) return refuse(fmt::format("the daemon (process {}) does not end", *pid));
  // It lets go of its folder a moment before it has ended.
  pollfd end{process.get(), POLLIN, 0};
  if (process) ::poll(&end, 1, std::chrono::milliseconds(kill_limit).count());
  return {};
}

}  // namespace softib::cli
