#include "coll/transport/shm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

namespace softib::coll::shm {

Result<Mapping> Mapping::of(int fd, u64 offset, u64 bytes, u64 alignment) {
  // More than needed, of which the aligned part is kept.
  const u64 room = bytes + alignment;
  void* reserved = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return fail(errno);
  auto* first = static_cast<std::byte*>(reserved);
  const u64 skip = (alignment - reinterpret_cast<u64>(first) % alignment) % alignment;
  std::byte* at = first + skip;
  void* mapped =
      ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) {
    const int error = errno;
    ::munmap(first, room);
    return fail(error);
  }
  if (skip > 0) ::munmap(first, skip);
  ::munmap(at + bytes, room - skip - bytes);
  Mapping mapping;
  mapping.data_ = at;
  mapping.bytes_ = bytes;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_) ::munmap(data_, bytes_);
}

Result<Fd> make_memory_file(const char* name, u64 bytes) {
  Fd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return fail(errno);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) return fail(errno);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) return fail(errno);
  return file;
}

std::optional<u64> sealed_size(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &status) < 0) return std::nullopt;
  return static_cast<u64>(status.st_size);
}

}  // namespace softib::coll::shm
