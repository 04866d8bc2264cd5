// Locks in the segment: short critical sections, abandoned safely when their holder dies.
#pragma once

#include <sched.h>
#include <time.h>

#include "ipc/segment.h"

namespace softib::ipc {

inline void cpu_relax() { __builtin_ia32_pause(); }

[[nodiscard]] inline bool try_lock(SharedLock& lock, u32 slot) {
  u32 expected = 0;
  return lock.holder.compare_exchange_strong(expected, slot, std::memory_order_acquire, std::memory_order_relaxed);
}

inline void unlock(SharedLock& lock) { lock.holder.store(0, std::memory_order_release); }

// False: the holder did not let go within about ten seconds (it was stopped, or died while softibd was dead too). The
// caller treats the object as lost.
[[nodiscard]] bool lock_slow(SharedLock& lock, u32 slot);

[[nodiscard]] inline bool lock(SharedLock& lock, u32 slot) { return try_lock(lock, slot) || lock_slow(lock, slot); }

class LockGuard {
 public:
  LockGuard(SharedLock& lock, u32 slot) : lock_(lock), held_(ipc::lock(lock, slot)) {}
  ~LockGuard() {
    if (held_) unlock(lock_);
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  SharedLock& lock_;
  bool held_;
};

}  // namespace softib::ipc
