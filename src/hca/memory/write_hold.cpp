#include "hca/memory/write_hold.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "hca/memory/pages.h"
#include "hca/memory/raw.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace softib::hca {

namespace {

constexpr int user_mode_only = 1;    // UFFD_USER_MODE_ONLY, Linux 5.11
constexpr u64 feature_wp = 1U << 0;  // UFFD_FEATURE_PAGEFAULT_FLAG_WP
constexpr int new_flags = O_CLOEXEC | O_NONBLOCK;

uffdio_range as_range(AddressRange range) { return {range.begin, range.size()}; }

int new_by_call(int flags) { return static_cast<int>(::syscall(SYS_userfaultfd, flags)); }

// The device grants what the call reserves for CAP_SYS_PTRACE, to those that may open it.
int new_by_device() {
  const int device = raw::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  const int fd = raw::control(device, USERFAULTFD_IOC_NEW, reinterpret_cast<void*>(u64{new_flags}));
  raw::close(device);
  return fd;
}

}  // namespace

WriteHold::Reach WriteHold::open() {
  // Where there was no right to it once, there may be one later; so only success is remembered.
  if (fd_ < 0) reach_ = open_anew();
  return reach_;
}

WriteHold::Reach WriteHold::open_anew() {
  if (start(new_by_call(new_flags)) || start(new_by_device())) return Reach::kernel;
  if (start(new_by_call(new_flags | user_mode_only))) return Reach::threads;
  return Reach::nobody;
}

void WriteHold::close() {
  if (fd_ >= 0) raw::close(fd_);
  fd_ = -1;
}

bool WriteHold::start(int fd) {
  if (fd < 0) return false;
  uffdio_api api{UFFD_API, feature_wp, 0};
  if (raw::control(fd, UFFDIO_API, &api) != 0) {
    raw::close(fd);
    return false;
  }
  fd_ = fd;
  return true;
}

Result<void> WriteHold::claim(AddressRange range) {
  uffdio_register request{as_range(range), UFFDIO_REGISTER_MODE_WP, 0};
  if (raw::control(fd_, UFFDIO_REGISTER, &request) == 0) return {};
  const int error = errno;
  // A program that closes all descriptors has closed this one; the number may be its own by now.
  if (error == EBADF || error == ENOTTY) fd_ = -1;
  return fail(error);
}

namespace {

// Only what is there can be protected. (Linux 6.4 can do without, but then /proc/self/pagemap no longer tells a page
// that was never touched from one that is swapped out.)
Result<void> fill_gaps(AddressRange range) {
  if (raw::advise(range.begin, range.size(), MADV_POPULATE_READ) == 0) return {};
  if (errno != EINVAL) return fail(errno);
  for (u64 page = range.begin; page < range.end; page += page_size)  // Linux before 5.14
    static_cast<void>(*static_cast<const volatile char*>(raw::pointer(page)));
  return {};
}

}  // namespace

Result<void> WriteHold::protect(AddressRange range) {
  if (auto done = fill_gaps(range); !done) return done;
  uffdio_writeprotect request{as_range(range), UFFDIO_WRITEPROTECT_MODE_WP};
  while (raw::control(fd_, UFFDIO_WRITEPROTECT, &request) != 0) {
    if (errno != EAGAIN) return fail(errno);
  }
  return {};
}

void WriteHold::let_go_replaced(AddressRange range) {
  uffdio_range request = as_range(range);
  raw::control(fd_, UFFDIO_WAKE, &request);
}

void WriteHold::let_go_unchanged(AddressRange range) {
  uffdio_range request = as_range(range);
  raw::control(fd_, UFFDIO_UNREGISTER, &request);
}

}  // namespace softib::hca
