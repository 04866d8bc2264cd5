// Ctrl-C in the middle of something that must not be left half done.
#pragma once

#include <signal.h>

#include <chrono>

namespace softib::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP do nothing but be noticed. At its end they do what they did before.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Waits so long, or until one comes. True from then on.
  bool came_within(std::chrono::nanoseconds time);
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
