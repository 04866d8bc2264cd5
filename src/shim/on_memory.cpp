// Wrappers of calls that change mappings: the rxe rings are mapped on a command file, and registered pages that lie on
// the memory file must follow what the program does to them (hca/memory.h).
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "shim/files.h"
#include "shim/libc.h"
#include "shim/on.h"

namespace softib::shim {

namespace {

using RealMap = void* (*)(void*, size_t, int, int, int, off_t);

hca::ProcessMemory* shared_memory() {
  hca::Session* session = hca::Session::current();
  return session ? &session->memory() : nullptr;
}

void forget(void* address, size_t length) {
  if (hca::ProcessMemory* memory = shared_memory()) memory->after_unmap(reinterpret_cast<u64>(address), length);
}

bool replaces(int flags) { return (flags & MAP_FIXED) && (flags & MAP_FIXED_NOREPLACE) != MAP_FIXED_NOREPLACE; }

// A ring: the program's offset names it, the pages lie in the segment.
void* map_ring(void* address, size_t length, int protection, int flags, int fd, off_t offset, RealMap real) {
  auto refused = [](int error) {
    errno = error;
    return MAP_FAILED;
  };
  FdTable::Pin pin = fd_table().pin(fd);
  if (pin.kind() != FdClass::command) return refused(EBADF);
  auto in = session();
  if (!in) return refused(EIO);
  auto place = pin.as<CommandFile>().uverbs().mmap_offset(static_cast<u64>(offset), length);
  if (!place) return refused(to_int(place.error()));
  return real(address, length, protection, flags, (*in)->segment_fd(), static_cast<off_t>(*place));
}

void* map(void* address, size_t length, int protection, int flags, int fd, off_t offset, RealMap real) {
  bool on_file = fd >= 0 && !(flags & MAP_ANONYMOUS);
  bool ring = on_file && (classify(fd).kind == FdClass::command ||
                          (classify(fd).kind == FdClass::received && classify_device_call(fd) == FdClass::command));
  void* mapped = ring ? map_ring(address, length, protection, flags, fd, offset, real)
                      : real(address, length, protection, flags, fd, offset);
  if (mapped != MAP_FAILED && replaces(flags)) [[unlikely]]
    forget(mapped, length);
  return mapped;
}

}  // namespace

namespace on {

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  return map(address, length, protection, flags, fd, offset, libc::mmap);
}

void* mmap64(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  return map(address, length, protection, flags, fd, offset, libc::mmap64);
}

int munmap(void* address, size_t length) {
  int done = libc::munmap(address, length);
  if (done == 0) forget(address, length);
  return done;
}

void* mremap(void* old_address, size_t old_size, size_t new_size, int flags, void* new_address) {
  if (hca::ProcessMemory* memory = shared_memory()) {
    if (auto done = memory->on_mremap(old_address, old_size, new_size, flags, new_address)) return *done;
  }
  void* moved = libc::mremap(old_address, old_size, new_size, flags, new_address);
  if (moved != MAP_FAILED && (flags & MREMAP_FIXED)) forget(moved, new_size);
  return moved;
}

int madvise(void* address, size_t length, int advice) {
  if (hca::ProcessMemory* memory = shared_memory()) {
    if (auto done = memory->on_madvise(address, length, advice)) return *done;
  }
  return libc::madvise(address, length, advice);
}

// The C library's own would grow a large block by an mremap that nobody sees (hca/memory.h, holds). reallocarray()
// comes here too.
void* realloc(void* block, size_t size) {
  hca::ProcessMemory* memory = shared_memory();
  if (!memory || !block || size == 0) return libc::realloc(block, size);
  const size_t room = ::malloc_usable_size(block);
  if (!memory->holds(block, room)) return libc::realloc(block, size);
  void* copy = ::malloc(size);
  if (!copy) return nullptr;
  std::memcpy(copy, block, std::min(size, room));
  ::free(block);
  return copy;
}

}  // namespace on

}  // namespace softib::shim
