// Wrappers of calls on descriptors.
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdarg>
#include <type_traits>

#include "shim/counter_file.h"
#include "shim/device_nodes.h"
#include "shim/events.h"
#include "shim/libc.h"
#include "shim/netlink_file.h"
#include "shim/on.h"
#include "shim/process.h"
#include "shim/rdma_cm_file.h"
#include "shim/umad_file.h"

namespace softib::shim {

namespace {

constexpr size_t doorbell_size = sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send);

ssize_t read_events(int fd, FdClass kind, void* buffer, size_t size) {
  auto in = session();
  if (!in) return -EIO;
  ipc::Segment& segment = (*in)->segment();
  return kind == FdClass::async ? read_async_event(segment, fd, buffer, size)
                                : read_completion_event(segment, fd, buffer, size);
}

template <typename Call>
auto with_umad(int fd, Call call) {
  using Answer = std::invoke_result_t<Call, UmadFile&>;
  FdTable::Pin pin = fd_table().pin(fd);
  return to_libc<Answer>(pin.kind() == FdClass::umad ? call(pin.as<UmadFile>()) : -EBADF);
}

ssize_t write_rdma_cm(int fd, const void* buffer, size_t size) {
  FdTable::Pin pin = fd_table().pin(fd);
  return to_libc<ssize_t>(pin.kind() == FdClass::rdma_cm ? pin.as<RdmaCmFile>().write(fd, buffer, size) : -EBADF);
}

// read() on something of ours; `plain` is the C library's answer for what needs no translation.
template <typename Plain>
[[gnu::noinline]] ssize_t read_ours(int fd, FdClass kind, void* buffer, size_t size, Plain plain) {
  switch (kind) {
    case FdClass::async:
    case FdClass::channel:
      return to_libc(read_events(fd, kind, buffer, size));
    case FdClass::command:
    case FdClass::rdma_cm:
      return to_libc<ssize_t>(-EINVAL);  // they have no read
    case FdClass::umad:
      return with_umad(fd, [&](UmadFile& file) { return file.read(fd, buffer, size); });
    case FdClass::counter:
      before_counter_read(fd, -1);
      return plain();
    default:
      return plain();
  }
}

[[gnu::noinline]] ssize_t write_ours(int fd, const void* buffer, size_t size) {
  FdTable::Entry entry = classify(fd);
  if (entry.kind == FdClass::received && classify_device_call(fd) == FdClass::command) entry = classify(fd);
  switch (entry.kind) {
    case FdClass::command:
      return to_libc(fd_table().pin(fd).as<CommandFile>().uverbs().write(buffer, size));
    case FdClass::netlink:
      return to_libc(netlink_request(fd, buffer, size));
    case FdClass::umad:
      return with_umad(fd, [&](UmadFile& file) { return file.write(fd, buffer, size); });
    case FdClass::rdma_cm:
      return write_rdma_cm(fd, buffer, size);
    case FdClass::async:
    case FdClass::channel:
      return to_libc<ssize_t>(-EBADF);  // they are open for reading only
    default:
      return libc::write(fd, buffer, size);
  }
}

// A duplicate was made: it is to us what the original is.
int duplicated(int from, int made) {
  if (made < 0) return made;
  if (classify(from).kind == FdClass::none && classify(made).kind == FdClass::none) [[likely]]
    return made;
  if (!owns_memory() || fd_table().copy(from, made)) return made;
  libc::close(made);
  errno = EMFILE;
  return -1;
}

template <typename Duplicate>
int duplicate_onto(int from, int to, Duplicate duplicate) {
  if (classify(to).kind == FdClass::own && owns_memory()) {
    errno = EBUSY;  // the number is taken by something that the program does not know of and must not lose for us
    return -1;
  }
  int made = duplicate();
  return from == to ? made : duplicated(from, made);
}

// close_range() without our own descriptors in between.
int close_around_own(unsigned first, unsigned last, int flags) {
  FdTable& table = fd_table();
  auto end = static_cast<unsigned>(table.end());
  unsigned from = first;
  for (unsigned fd = first; fd <= last && fd < end; ++fd) {
    if (table.kind(static_cast<int>(fd)) != FdClass::own) {
      table.clear(static_cast<int>(fd));
      continue;
    }
    if (fd > from && libc::close_range(from, fd - 1, flags) != 0) return -1;
    from = fd + 1;
  }
  return from <= last ? libc::close_range(from, last, flags) : 0;
}

int duplicating_fcntl(int fd, int command, void* argument, int (*real)(int, int, void*)) {
  int result = real(fd, command, argument);
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? duplicated(fd, result) : result;
}

}  // namespace

namespace on {

ssize_t write(int fd, const void* buffer, size_t size) {
  FdTable::Entry entry = classify(fd);
  if (entry.kind == FdClass::none) return libc::write(fd, buffer, size);
  if (entry.kind == FdClass::command && size == doorbell_size) [[likely]]
    return to_libc(static_cast<CommandFile*>(entry.file)->uverbs().write(buffer, size));  // not pinned: see File
  return write_ours(fd, buffer, size);
}

int ioctl(int fd, unsigned long request, void* argument) {
  FdClass kind = classify(fd).kind;
  bool for_device = static_cast<u32>(request) == static_cast<u32>(RDMA_VERBS_IOCTL);
  if (for_device && (kind == FdClass::received || kind == FdClass::none)) kind = classify_device_call(fd);
  if (kind == FdClass::umad) return with_umad(fd, [&](UmadFile& file) { return file.ioctl(request, argument); });
  if (kind != FdClass::command) return libc::ioctl(fd, request, argument);
  FdTable::Pin pin = fd_table().pin(fd);
  if (pin.kind() != FdClass::command) return to_libc(-EBADF);
  return to_libc(pin.as<CommandFile>().uverbs().ioctl(request, argument));
}

ssize_t read(int fd, void* buffer, size_t size) {
  FdClass kind = classify(fd).kind;
  if (kind == FdClass::none) return libc::read(fd, buffer, size);
  return read_ours(fd, kind, buffer, size, [=] { return libc::read(fd, buffer, size); });
}

ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room) {
  FdClass kind = classify(fd).kind;
  if (kind == FdClass::none || size > room) return libc::__read_chk(fd, buffer, size, room);
  return read_ours(fd, kind, buffer, size, [=] { return libc::read(fd, buffer, size); });
}

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  if (classify(fd).kind == FdClass::counter) [[unlikely]]
    before_counter_read(fd, offset);
  return libc::pread(fd, buffer, size, offset);
}

ssize_t pread64(int fd, void* buffer, size_t size, off_t offset) { return on::pread(fd, buffer, size, offset); }

ssize_t __pread_chk(int fd, void* buffer, size_t size, off_t offset, size_t room) {
  return size > room ? libc::__pread_chk(fd, buffer, size, offset, room) : on::pread(fd, buffer, size, offset);
}

ssize_t __pread64_chk(int fd, void* buffer, size_t size, off_t offset, size_t room) {
  return on::__pread_chk(fd, buffer, size, offset, room);
}

// The kernel calls a file without a gathering read once per piece; one event fits the first.
ssize_t readv(int fd, const iovec* pieces, int count) {
  FdClass kind = classify(fd).kind;
  if (kind == FdClass::none || count < 1) return libc::readv(fd, pieces, count);
  return read_ours(fd, kind, pieces[0].iov_base, pieces[0].iov_len, [=] { return libc::readv(fd, pieces, count); });
}

int poll(pollfd* fds, nfds_t count, int timeout) {
  if (count != 1 || !fds || classify(fds->fd).kind != FdClass::umad) [[likely]]
    return libc::poll(fds, count, timeout);
  int ready = 0;
  if (timeout != 0) {
    FdTable::Pin pin = fd_table().pin(fds->fd);
    if (pin.kind() == FdClass::umad) ready = pin.as<UmadFile>().poll_briefly(*fds);
  }
  if (ready == 0) ready = libc::poll(fds, count, timeout);
  if (ready == 1 && fds->revents & POLLHUP) fds->revents = POLLERR;  // as the kernel says that the device is gone
  return ready;
}

int close(int fd) {
  FdClass kind = classify(fd).kind;
  if (kind == FdClass::none || !owns_memory()) [[likely]]
    return libc::close(fd);
  if (kind == FdClass::own) return to_libc(-EBADF);
  // Held until the descriptor is closed, so that softibd has been told before the memory behind the context is let go.
  FdTable::Pin pin = fd_table().pin(fd);
  fd_table().clear(fd);
  return libc::close(fd);
}

int close_range(unsigned first, unsigned last, int flags) {
  constexpr int set_close_on_exec = 4;  // CLOSE_RANGE_CLOEXEC: closes nothing yet
  bool touches_ours = first <= last && !(flags & set_close_on_exec) && first < static_cast<unsigned>(fd_table().end());
  if (!touches_ours || !owns_memory()) return libc::close_range(first, last, flags);
  return close_around_own(first, last, flags);
}

void closefrom(int first) {
  int end = fd_table().end();
  if (first >= end || !owns_memory()) return libc::closefrom(first);
  for (int fd = std::max(first, 0); fd < end; ++fd) on::close(fd);
  libc::closefrom(std::max(first, end));
}

int dup(int fd) { return duplicated(fd, libc::dup(fd)); }

int dup2(int from, int to) {
  return duplicate_onto(from, to, [=] { return libc::dup2(from, to); });
}

int dup3(int from, int to, int flags) {
  return duplicate_onto(from, to, [=] { return libc::dup3(from, to, flags); });
}

int fcntl(int fd, int command, void* argument) { return duplicating_fcntl(fd, command, argument, libc::fcntl); }

int fcntl64(int fd, int command, void* argument) { return duplicating_fcntl(fd, command, argument, libc::fcntl64); }

}  // namespace on

}  // namespace softib::shim
