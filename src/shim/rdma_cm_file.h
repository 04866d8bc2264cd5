// An open /dev/infiniband/rdma_cm. The descriptor is the read end of a pipe in which a byte lies as long as the file
// has events: so poll() and epoll tell of them; nobody reads it.
#pragma once

#include "kernel/ucma.h"
#include "shim/files.h"

namespace softib::shim {

class RdmaCmFile final : public File {
 public:
  explicit RdmaCmFile(u32 number) : number_(number) {}

  [[nodiscard]] u32 number() const { return number_; }  // softibd's
  // As the kernel's: the size, or -errno.
  ssize_t write(int fd, const void* buffer, size_t size);

 private:
  u32 number_;
};

// open("/dev/infiniband/rdma_cm"): the new descriptor.
Result<int> open_rdma_cm(int flags);

}  // namespace softib::shim
