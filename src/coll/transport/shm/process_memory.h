// Reading the memory of another process of the same user, where the kernel allows it: one copy instead of two.
#pragma once

#include <chrono>

#include "coll/transport/shm/handover.h"

namespace softib::coll::shm {

class ProcessMemory {
 public:
  ProcessMemory() = default;
  // Of nothing, unless the process shows the key that it told of: the kernel may forbid it (ptrace rules, containers).
  [[nodiscard]] static ProcessMemory of(i32 process, const Key& key, u64 key_address);

  [[nodiscard]] bool readable() const { return process_ != 0; }
  // False if the process is gone or there is nothing at that address.
  [[nodiscard]] bool read(void* into, u64 address, u64 bytes) const;

 private:
  i32 process_ = 0;
};

// Waits at most so long. False: it hasn't ended, or nobody knows.
[[nodiscard]] bool has_ended(i32 process, std::chrono::milliseconds wait);

}  // namespace softib::coll::shm
