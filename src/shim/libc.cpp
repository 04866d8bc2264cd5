#include "shim/libc.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <type_traits>

namespace softib::shim::libc {

namespace {

// Set while this thread is inside dlsym(), which may call malloc, which may be another library's and call mmap.
thread_local bool resolving = false;

struct Name {
  const char* text;
  bool gives_pointer;
};

constexpr Name names[] = {
#define SOFTIB_CALL(result, name, parameters, arguments) {#name, std::is_pointer_v<result>},
#define SOFTIB_PATH(result, name, dirfd, parameters, arguments) {#name, std::is_pointer_v<result>},
#define SOFTIB_STAT(result, name, dirfd, parameters, arguments) {#name, std::is_pointer_v<result>},
#define SOFTIB_OPEN(result, name, dirfd, flags, parameters, arguments) {#name, std::is_pointer_v<result>},
#include "shim/calls.def"
#undef SOFTIB_CALL
#undef SOFTIB_PATH
#undef SOFTIB_STAT
#undef SOFTIB_OPEN
};
static_assert(std::size(names) == static_cast<size_t>(Call::count));

long absent() {
  errno = ENOSYS;
  return -1;
}

void* absent_pointer() {
  errno = ENOSYS;
  return nullptr;
}

int raw_open(const char* path, int flags, mode_t mode) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int raw_openat(int dirfd, const char* path, int flags, mode_t mode) {
  return static_cast<int>(::syscall(SYS_openat, dirfd, path, flags, mode));
}
int raw_close(int fd) { return static_cast<int>(::syscall(SYS_close, fd)); }
ssize_t raw_read(int fd, void* buffer, size_t size) { return ::syscall(SYS_read, fd, buffer, size); }
ssize_t raw_write(int fd, const void* buffer, size_t size) { return ::syscall(SYS_write, fd, buffer, size); }
ssize_t raw_readlink(const char* path, char* buffer, size_t size) {
  return ::syscall(SYS_readlinkat, AT_FDCWD, path, buffer, size);
}
void* raw_mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}
int raw_munmap(void* address, size_t length) { return static_cast<int>(::syscall(SYS_munmap, address, length)); }
int raw_madvise(void* address, size_t length, int advice) {
  return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}

// What an allocator may call while dlsym() runs, as plain system calls.
void* raw_version(Call call) {
  switch (call) {
    case Call::open:
    case Call::open64:
      return reinterpret_cast<void*>(raw_open);
    case Call::openat:
    case Call::openat64:
      return reinterpret_cast<void*>(raw_openat);
    case Call::close:
      return reinterpret_cast<void*>(raw_close);
    case Call::read:
      return reinterpret_cast<void*>(raw_read);
    case Call::write:
      return reinterpret_cast<void*>(raw_write);
    case Call::readlink:
      return reinterpret_cast<void*>(raw_readlink);
    case Call::mmap:
    case Call::mmap64:
      return reinterpret_cast<void*>(raw_mmap);
    case Call::munmap:
      return reinterpret_cast<void*>(raw_munmap);
    case Call::madvise:
      return reinterpret_cast<void*>(raw_madvise);
    default:
      return nullptr;
  }
}

void* stand_in(Call call) {
  return names[static_cast<u32>(call)].gives_pointer ? reinterpret_cast<void*>(absent_pointer)
                                                     : reinterpret_cast<void*>(absent);
}

}  // namespace

void* resolve(Call call) {
  if (resolving) {
    void* raw = raw_version(call);
    return raw ? raw : stand_in(call);
  }
  resolving = true;
  void* found = ::dlsym(RTLD_NEXT, names[static_cast<u32>(call)].text);
  resolving = false;
  if (!found) found = stand_in(call);
  addresses[static_cast<u32>(call)].store(found, std::memory_order_release);
  return found;
}

}  // namespace softib::shim::libc
