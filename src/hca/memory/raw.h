// System calls without the C library's names in between. Those names lead back into the preload library; and a
// sanitizer's versions of them judge by rules that do not hold while pages are being moved.
#pragma once

#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/types.h"

namespace softib::hca::raw {

inline void* pointer(u64 address) { return reinterpret_cast<void*>(address); }

inline void* map(u64 address, u64 length, int protection, int flags, int fd = -1, u64 offset = 0) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

inline int unmap(u64 address, u64 length) { return static_cast<int>(::syscall(SYS_munmap, address, length)); }

inline void* remap(u64 old_address, u64 old_size, u64 new_size, int flags, u64 new_address = 0) {
  return reinterpret_cast<void*>(::syscall(SYS_mremap, old_address, old_size, new_size, flags, new_address));
}

inline int protect(u64 address, u64 length, int protection) {
  return static_cast<int>(::syscall(SYS_mprotect, address, length, protection));
}

inline int advise(u64 address, u64 length, int advice) {
  return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}

inline int lock(u64 address, u64 length) { return static_cast<int>(::syscall(SYS_mlock, address, length)); }

inline int open(const char* path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, 0));
}

inline int close(int fd) { return static_cast<int>(::syscall(SYS_close, fd)); }

inline long read(int fd, void* buffer, size_t size) { return ::syscall(SYS_read, fd, buffer, size); }

inline long write(int fd, const void* buffer, size_t size) { return ::syscall(SYS_write, fd, buffer, size); }

inline long read_at(int fd, void* buffer, size_t size, u64 offset) {
  return ::syscall(SYS_pread64, fd, buffer, size, offset);
}

inline long write_at(int fd, const void* buffer, size_t size, u64 offset) {
  return ::syscall(SYS_pwrite64, fd, buffer, size, offset);
}

inline long seek(int fd, u64 offset, int whence) { return ::syscall(SYS_lseek, fd, offset, whence); }

inline int control(int fd, unsigned long request, void* argument) {
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}

inline int punch(int fd, u64 offset, u64 length) {
  return static_cast<int>(::syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length));
}

// What a thread blocks to be sure that no handler of the program runs on it; also the two signals that the C library
// keeps for itself and would leave out.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    u64 all = ~u64{0};
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
  }
  ~SignalsBlocked() { ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  u64 before_ = 0;
};

}  // namespace softib::hca::raw
