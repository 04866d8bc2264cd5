// The program's memory, as the commands read and write it: a wild pointer is EFAULT, as in the kernel.
#pragma once

#include <cstring>

#include "base/types.h"

namespace softib::kernel {

class UserMemory {
 public:
  virtual ~UserMemory() = default;
  virtual Result<void> copy_in(void* to, u64 from, size_t size) = 0;
  virtual Result<void> copy_out(u64 to, const void* from, size_t size) = 0;
  // Zeroes; what the kernel's clear_user does.
  virtual Result<void> clear(u64 to, size_t size) = 0;
  // Faults the pages of a range in, for writing or reading. EFAULT: part of it is not mapped, or not so.
  virtual Result<void> prefetch(u64 address, size_t size, bool writing) = 0;
};

// This process's own memory. The interpreter runs in the program's address space, so memcpy would do, but a wild
// pointer in a command must give EFAULT and not a signal: the copy is made by the kernel (process_vm_readv on
// oneself). Where the system forbids that (a seccomp filter), it is memcpy behind a check for the null page.
UserMemory& own_memory();

}  // namespace softib::kernel
