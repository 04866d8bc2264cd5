#include "coll/transport/shm/process_memory.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

namespace softib::coll::shm {

ProcessMemory ProcessMemory::of(i32 process, const Key& key, u64 key_address) {
  ProcessMemory memory;
  memory.process_ = process;
  Key seen{};
  if (process == 0 || !memory.read(&seen, key_address, sizeof seen) || seen != key) return {};
  return memory;
}

bool ProcessMemory::read(void* into, u64 address, u64 bytes) const {
  auto* to = static_cast<std::byte*>(into);
  while (bytes > 0) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t came = ::process_vm_readv(process_, &local, 1, &remote, 1, 0);
    if (came <= 0) return false;
    to += came;
    address += static_cast<u64>(came);
    bytes -= static_cast<u64>(came);
  }
  return true;
}

bool has_ended(i32 process, std::chrono::milliseconds wait) {
  if (process == 0) return false;
  const Fd descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (descriptor.get() < 0) return errno == ESRCH;
  pollfd polled{descriptor.get(), POLLIN, 0};
  return ::poll(&polled, 1, static_cast<int>(wait.count())) == 1;
}

}  // namespace softib::coll::shm
