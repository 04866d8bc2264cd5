// Ctrl-C in the middle of something that must not be left half done.
#pragma once

#include <signal.h>

#include <chrono>

namespace softib::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP do nothing but be noticed. At its end they do what they did before.
class Interrupts {
 public:
  using Clock = std::chrono::steady_clock;

  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Waits so long, or until one comes. True from then on.
  bool came_within(std::chrono::nanoseconds time) { return came_until(Clock::now() + time); }
  bool came_until(std::chrono::steady_clock::time_point time);
  [[nodiscard]] int signal() const { return signal_; }  // 0: none
  // For a child, between fork and exec.
  void forget_in_child() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // Dies of the signal that came, as if it had not been held up.
  void die();

 private:
  sigset_t held_;
  sigset_t before_;
  int signal_ = 0;
};

}  // namespace softib::cli
