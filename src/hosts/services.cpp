#include "hosts/services.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/arguments.h"
#include "base/capabilities.h"

namespace softib::hosts {

namespace {

constexpr int ready_line = 3;  // a descriptor of the service

// IP over InfiniBand: the interfaces ib0, ib1, ... It finds the fabric and the host by its environment, as any program
// on a host does.
constexpr const char* ipoib = "softib-ipoib";

std::vector<std::string> ipoib_words(const PlaceSpec& spec) {
  std::vector<std::string> words{ipoib, "--children", "--wait", "--ready-fd", std::to_string(ready_line)};
  for (const std::string& interface : spec.interfaces) words.insert(words.end(), {"--interface", interface});
  return words;
}

// After the fork: the environment of a program on this host, and nothing of ours.
[[noreturn]] void become(const std::string& program, const std::vector<std::string>& words, const Surroundings& around,
                         const std::string& host, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(ready, ready_line);
  ::close_range(ready_line + 1, ~0U, 0);
  ::setenv("SOFTIB_FABRIC_DIR", around.folder.c_str(), 1);
  ::setenv("SOFTIB_HOST", host.c_str(), 1);
  ::setenv("LD_PRELOAD", around.preload_library.c_str(), 1);
  (void)keep_capabilities(service_capabilities);
  const std::vector<char*> arguments = argument_pointers(words);
  ::execv(program.c_str(), arguments.data());
  fmt::print(stderr, "softib-hosts: cannot start {}: {}\n", program, std::strerror(errno));
  ::_exit(127);
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

void Services::start() {
  if (around_.preload_library.empty() || spec_.interfaces.empty()) return;
  const std::string program = around_.programs + "/" + ipoib;
  int ends[2];
  if (::access(program.c_str(), X_OK) < 0 || ::pipe2(ends, O_CLOEXEC) < 0) return;
  ready_ = Fd(ends[0]);
  const Fd theirs(ends[1]);
  const pid_t pid = ::fork();
  if (pid == 0) become(program, ipoib_words(spec_), around_, spec_.name, theirs.get());
  if (pid > 0) running_[pid] = ipoib;
}

// It says a word, or its end of the pipe closes because it has ended.
void Services::wait() {
  constexpr int patience_ms = 6'000;
  pollfd event{ready_.get(), POLLIN, 0};
  if (ready_) (void)::poll(&event, 1, patience_ms);
  ready_.reset();
}

void Services::ended(pid_t pid, int status) {
  auto found = running_.find(pid);
  if (found == running_.end()) return;
  fmt::print(stderr, "softib-hosts: {} on {} ended with {}\n", found->second, spec_.name, how_it_ended(status));
  running_.erase(found);
  constexpr std::chrono::milliseconds pause{500};
  due_ = std::chrono::steady_clock::now() + pause;
}

int Services::restart() {
  if (!due_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due_ - std::chrono::steady_clock::now()).count();
  if (left > 0) return static_cast<int>(left);
  due_.reset();
  start();
  return -1;
}

}  // namespace softib::hosts
