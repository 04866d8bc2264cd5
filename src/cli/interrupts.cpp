#include "cli/interrupts.h"

#include <errno.h>
#include <time.h>

#include <algorithm>

namespace softib::cli {

Interrupts::Interrupts() {
  sigemptyset(&held_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // What nohup or a shell's background job ignores stays ignored.
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&held_, number);
  }
  ::sigprocmask(SIG_BLOCK, &held_, &before_);
}

Interrupts::~Interrupts() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

bool Interrupts::came_until(Clock::time_point time) {
  constexpr long second = 1'000'000'000;
  while (signal_ == 0) {
    const auto left = std::max(time - Clock::now(), Clock::duration::zero());
    const long ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec limit{ns / second, ns % second};
    const int number = ::sigtimedwait(&held_, nullptr, &limit);
    if (number > 0) signal_ = number;
    if (number < 0 && errno == EAGAIN) break;  // and not EINTR: of a signal that is none of these
  }
  return signal_ != 0;
}

void Interrupts::die() {
  ::signal(signal_, SIG_DFL);
  ::raise(signal_);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);  // now it comes
}

}  // namespace softib::cli
