#include "hosts/services.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/capabilities.h"

namespace softib::hosts {

namespace {

// A program of the folder of service programs: found by its name, told the fabric and the host by its environment as
// any program on a host is.
struct Service {
  const char* program;
};

constexpr std::array services{
    Service{"softib-ipoib"},  // IP over InfiniBand: the interfaces ib0, ib1, ...
};

// After the fork: the environment of a program on this host, and nothing of ours.
[[noreturn]] void become(const std::string& program, const Surroundings& around, const std::string& host) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::close_range(3, ~0U, 0);
  ::setenv("SOFTIB_FABRIC_DIR", around.folder.c_str(), 1);
  ::setenv("SOFTIB_HOST", host.c_str(), 1);
  ::setenv("LD_PRELOAD", around.preload_library.c_str(), 1);
  (void)keep_capabilities_of_hosts();
  ::execl(program.c_str(), program.c_str(), nullptr);
  fmt::print(stderr, "softib-hosts: cannot start {}: {}\n", program, std::strerror(errno));
  ::_exit(127);
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

void Services::start() {
  if (around_.preload_library.empty()) return;
  for (const Service& service : services) {
    const std::string program = around_.programs + "/" + service.program;
    if (::access(program.c_str(), X_OK) < 0) continue;
    const pid_t pid = ::fork();
    if (pid == 0) become(program, around_, host_);
    if (pid > 0) running_[pid] = service.program;
  }
}

void Services::ended(pid_t pid, int status) {
  auto found = running_.find(pid);
  if (found == running_.end()) return;
  fmt::print(stderr, "softib-hosts: {} on {} ended with {}\n", found->second, host_, how_it_ended(status));
  running_.erase(found);
}

}  // namespace softib::hosts
