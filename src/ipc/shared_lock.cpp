#include "ipc/shared_lock.h"

namespace softib::ipc {

bool lock_slow(SharedLock& lock, u32 slot) {
  constexpr int spins = 200;
  constexpr int yields = 2000;
  constexpr int naps = 100'000;
  for (int i = 0; i < spins; ++i) {
    if (try_lock(lock, slot)) return true;
    cpu_relax();
  }
  for (int i = 0; i < yields; ++i) {
    if (try_lock(lock, slot)) return true;
    ::sched_yield();
  }
  for (int i = 0; i < naps; ++i) {
    if (try_lock(lock, slot)) return true;
    timespec nap{0, 50'000};
    ::nanosleep(&nap, nullptr);
  }
  return false;
}

}  // namespace softib::ipc
