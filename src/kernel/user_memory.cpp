#include "kernel/user_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace softib::kernel {

namespace {

// A system where process_vm_readv is refused (seccomp): plain copies are all that is left.
std::atomic<bool> kernel_copies{true};

constexpr u64 lowest_address = 65536;  // vm.mmap_min_addr: nothing is ever mapped below
constexpr u64 highest_address = 1ULL << 47;

bool plausible(u64 address, size_t size) {
  return address >= lowest_address && address < highest_address && size <= highest_address - address;
}

// The upper end of this thread's stack; 0 when unknown.
u64 find_stack_top() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  int error = pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  return error ? 0 : reinterpret_cast<u64>(lowest) + size;
}

// libibverbs builds its commands on the stack: what lies between this frame and the stack's end is there for certain,
// and needs no system call to prove it.
[[gnu::noinline]] bool on_live_stack(u64 address, size_t size) {
  thread_local const u64 top = find_stack_top();
  u64 frame = reinterpret_cast<u64>(__builtin_frame_address(0));
  return frame < top && address >= frame && address <= top && size <= top - address;
}

bool refused(ssize_t moved) { return moved < 0 && (errno == ENOSYS || errno == EPERM); }

using Mover = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// nothing: the kernel won't do it, the caller copies itself.
Result<bool> copy_by_kernel(Mover mover, u64 local, u64 remote, size_t size) {
  if (!kernel_copies.load(std::memory_order_relaxed)) return false;
  int saved = errno;
  iovec here{reinterpret_cast<void*>(local), size};
  iovec there{reinterpret_cast<void*>(remote), size};
  ssize_t moved = mover(::getpid(), &here, 1, &there, 1, 0);
  if (refused(moved)) {
    kernel_copies.store(false, std::memory_order_relaxed);
    errno = saved;
    return false;
  }
  errno = saved;
  if (moved != static_cast<ssize_t>(size)) return fail(EFAULT);
  return true;
}

class OwnMemory final : public UserMemory {
 public:
  Result<void> copy_in(void* to, u64 from, size_t size) override {
    if (size == 0) return {};
    if (!plausible(from, size)) return fail(EFAULT);
    if (!on_live_stack(from, size)) {
      auto done = copy_by_kernel(::process_vm_readv, reinterpret_cast<u64>(to), from, size);
      if (!done) return fail(done.error());
      if (*done) return {};
    }
    std::memcpy(to, reinterpret_cast<const void*>(from), size);
    return {};
  }

  Result<void> copy_out(u64 to, const void* from, size_t size) override {
    if (size == 0) return {};
    if (!plausible(to, size)) return fail(EFAULT);
    if (!on_live_stack(to, size)) {
      auto done = copy_by_kernel(::process_vm_writev, reinterpret_cast<u64>(from), to, size);
      if (!done) return fail(done.error());
      if (*done) return {};
    }
    std::memcpy(reinterpret_cast<void*>(to), from, size);
    return {};
  }

  // The system call itself, so that nothing that stands in for madvise in this process sees it.
  Result<void> prefetch(u64 address, size_t size, bool writing) override {
    if (size == 0) return {};
    if (!plausible(address, size)) return fail(EFAULT);
#ifdef MADV_POPULATE_READ
    constexpr u64 page_mask = 4096 - 1;
    u64 begin = address & ~page_mask;
    u64 end = (address + size + page_mask) & ~page_mask;
    int advice = writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    int saved = errno;
    bool populated = ::syscall(SYS_madvise, begin, end - begin, advice) == 0;
    // A system older than the advice does not know it for an empty range either; there nothing can be done in advance.
    bool known = populated || ::syscall(SYS_madvise, begin, 0, advice) == 0;
    errno = saved;
    return populated || !known ? Result<void>{} : fail(EFAULT);
#else
    (void)writing;
    return {};
#endif
  }

  Result<void> clear(u64 to, size_t size) override {
    static constexpr char zeros[1024] = {};
    while (size > 0) {
      size_t step = std::min(size, sizeof zeros);
      if (auto done = copy_out(to, zeros, step); !done) return done;
      to += step;
      size -= step;
    }
    return {};
  }
};

}  // namespace

UserMemory& own_memory() {
  static OwnMemory& memory = *new OwnMemory;  // never destroyed: other threads may be inside at exit
  return memory;
}

}  // namespace softib::kernel
