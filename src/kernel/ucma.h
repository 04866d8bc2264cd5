// An open /dev/infiniband/rdma_cm: what the kernel's rdma_ucm does at the system call boundary. A write() is a command:
// a header, a structure, and in that the address where the answer goes.
#pragma once

#include <sys/types.h>

#include "base/types.h"
#include "kernel/control.h"
#include "kernel/user_memory.h"

namespace softib::kernel {

// What the file needs from whoever holds its descriptor.
class UcmaDescriptor {
 public:
  virtual ~UcmaDescriptor() = default;
  // Before a command that may wait: from now on the file stays, also when the program closes it meanwhile. EBADF.
  virtual Result<void> hold() = 0;
  // Sleeps until there may be an event. EAGAIN: the program does not want to wait; EINTR: a signal came.
  virtual Result<void> wait() = 0;
  // softibd's number of another open rdma_cm file. ENOENT: no descriptor at all; EINVAL: something else.
  virtual Result<u32> file_of(int fd) = 0;
};

class UcmaFile {
 public:
  UcmaFile(Control& control, UserMemory& memory, u32 file) : control_(control), memory_(memory), file_(file) {}

  // As the kernel's: `length`, or -errno.
  ssize_t write(UcmaDescriptor& descriptor, u64 buffer, size_t length);

  [[nodiscard]] u32 number() const { return file_; }

 private:
  Result<void> carry_out(UcmaDescriptor& descriptor, u64 buffer, size_t length);
  Result<void> add_extra(UcmaDescriptor& descriptor, ipc::RdmaCmCommand::Request& request);
  Result<void> refuse_long_option(u64 address, u32 size);
  Result<ipc::RdmaCmCommand::Reply> ask(UcmaDescriptor& descriptor, const ipc::RdmaCmCommand::Request& request);

  Control& control_;
  UserMemory& memory_;
  u32 file_;
};

}  // namespace softib::kernel
