#include "cli/interrupts.h"

#include <time.h>

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

bool Interrupts::came_within(std::chrono::nanoseconds time) {
  if (signal_) return true;
  constexpr long second = 1'000'000'000;
  const timespec limit{static_cast<time_t>(time.count() / second), static_cast<long>(time.count() % second)};
  const int number = ::sigtimedwait(&held_, nullptr, &limit);
  if (number > 0) signal_ = number;
  return signal_ != 0;
}

void Interrupts::die() {
  ::signal(signal_, SIG_DFL);
  ::raise(signal_);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);  // now it comes
}

}  // namespace softib::cli
