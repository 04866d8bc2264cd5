#include "hca/memory/memory_file.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "hca/memory/pages.h"
#include "hca/memory/raw.h"

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif

namespace softib::hca {

namespace {

constexpr unsigned no_exec_seal = 8;  // MFD_NOEXEC_SEAL; where vm.memfd_noexec is 2, nothing else is allowed

int make_file() {
  int fd = static_cast<int>(::syscall(SYS_memfd_create, "softib", MFD_CLOEXEC | no_exec_seal));
  if (fd < 0 && errno == EINVAL) fd = static_cast<int>(::syscall(SYS_memfd_create, "softib", MFD_CLOEXEC));
  return fd;
}

// ftruncate past RLIMIT_FSIZE kills the program by SIGXFSZ. A soft limit is lifted for the one call.
Result<void> set_size(int fd) {
  struct rlimit limit {};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const bool lift = limit.rlim_cur < address_space_end;
  if (lift) {
    if (limit.rlim_max < address_space_end) return fail(ENOMEM);
    struct rlimit lifted {
      limit.rlim_max, limit.rlim_max
    };
    if (::setrlimit(RLIMIT_FSIZE, &lifted) != 0) return fail(ENOMEM);
  }
  const int error = ::syscall(SYS_ftruncate, fd, address_space_end) == 0 ? 0 : errno;
  if (lift) ::setrlimit(RLIMIT_FSIZE, &limit);
  if (error != 0) return fail(error == EFBIG ? ENOMEM : error);
  return {};
}

bool status_of(int fd, struct stat& status) { return ::syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH) == 0; }

}  // namespace

Result<MemoryFile> MemoryFile::create() {
  MemoryFile file;
  file.fd_.reset(make_file());
  if (!file.fd_) return fail(errno);
  if (auto done = set_size(file.fd()); !done) return fail(done.error());
  struct stat status {};
  if (!status_of(file.fd(), status)) return fail(errno);
  file.inode_ = status.st_ino;
  file.major_ = major(status.st_dev);
  file.minor_ = minor(status.st_dev);
  return file;
}

bool MemoryFile::intact() const {
  struct stat status {};
  return status_of(fd(), status) && status.st_ino == inode_ && status.st_dev == makedev(major_, minor_);
}

void MemoryFile::punch(AddressRange offsets) const {
  if (offsets.empty() || !intact()) return;
  const int before = errno;
  while (raw::punch(fd(), offsets.begin, offsets.size()) != 0 && errno == EINTR) {
  }
  errno = before;
}

u64 MemoryFile::allocated_bytes() const {
  struct stat status {};
  return status_of(fd(), status) ? static_cast<u64>(status.st_blocks) * 512 : 0;
}

void MemoryFile::close() {
  if (const int fd = fd_.release(); fd >= 0) raw::close(fd);
}

}  // namespace softib::hca
