// A MAD is answered in a few microseconds, a fraction of what it takes to put a thread to sleep and to wake it again.
// So both ends of an umad socket look a moment longer before they sleep, as net.core.busy_poll lets sockets do.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/types.h"

namespace softib::ipc {

class BriefWait {
 public:
  // From now on (CLOCK_MONOTONIC, ns) something is expected to come at once.
  void begin(u64 now) {
    if (pays()) until_.store(now + length_ns, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_on(u64 now) const { return now < until_.load(std::memory_order_relaxed); }

 private:
  static constexpr u64 length_ns = 50'000;

  // On one processor the other end runs only when this one sleeps.
  static bool pays() {
    static const bool several = [] {
      cpu_set_t usable;
      return ::sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) > 1;
    }();
    return several;
  }

  std::atomic<u64> until_{0};
};

}  // namespace softib::ipc
