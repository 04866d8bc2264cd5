// RLIMIT_MEMLOCK, as the kernel's ib_umem_get keeps it.
#pragma once

#include <atomic>

#include "base/types.h"

namespace softib::hca {

class LockLimit {
 public:
  // EPERM: the limit is 0, locking is forbidden altogether; ENOMEM: it would be passed.
  Result<void> charge(u64 address, u64 length);
  void uncharge(u64 address, u64 length);

 private:
  std::atomic<u64> pinned_bytes_{0};  // a page counts once for each registration that covers it
};

}  // namespace softib::hca
