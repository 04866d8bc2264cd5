// RLIMIT_MEMLOCK, as the kernel's ib_umem_get keeps it. But a limit that was there when the fabric came up is the
// machine's and not the cluster's: distributions give an ordinary user 8 MiB, which UCX alone exceeds, and only root
// can raise that. Nothing is locked here, so it counts as none; a lower one is somebody's will.
#pragma once

#include <atomic>

#include "base/types.h"

namespace softib::hca {

class LockLimit {
 public:
  void set_usual(u64 bytes) { usual_.store(bytes, std::memory_order_relaxed); }
  // EPERM: the limit is 0, locking is forbidden altogether; ENOMEM: it would be passed.
  Result<void> charge(u64 address, u64 length);
  void uncharge(u64 address, u64 length);

 private:
  std::atomic<u64> usual_{~u64{0}};
  std::atomic<u64> pinned_bytes_{0};  // a page counts once for each registration that covers it
};

}  // namespace softib::hca
