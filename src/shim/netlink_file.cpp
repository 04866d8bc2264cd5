#include "shim/netlink_file.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "shim/netlink_devices.h"
#include "shim/tree.h"

namespace softib::shim {

namespace {

// The kernel gives the first socket of a process its pid, later ones negative numbers.
u32 next_port_id() {
  static constinit std::atomic<u32> used{0};
  u32 before = used.fetch_add(1, std::memory_order_relaxed);
  return before == 0 ? static_cast<u32>(::getpid()) : ~u32{0} - 4096 - before;
}

// To a number that programs don't expect to get; where RLIMIT_NOFILE is too low for that, it stays where it is.
Fd out_of_the_way(Fd made) {
  constexpr int first_private_fd = 700;
  int moved = ::fcntl(made.get(), F_DUPFD_CLOEXEC, first_private_fd);
  if (moved >= 0) return Fd(moved);
  ::fcntl(made.get(), F_SETFD, FD_CLOEXEC);
  fd_table().set_own(made.get());
  return made;
}

void put_address(u32 port_id, void* address, socklen_t* length) {
  if (!address || !length) return;
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_pid = port_id;
  std::memcpy(address, &name, std::min<size_t>(*length, sizeof name));
  *length = sizeof name;
}

}  // namespace

NetlinkFile::NetlinkFile(Fd peer) : peer_(std::move(peer)), port_id_(next_port_id()) {}

Result<int> open_netlink(int type) {
  int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (kind != SOCK_RAW && kind != SOCK_DGRAM) return fail(ESOCKTNOSUPPORT);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | (type & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0, ends) != 0) return fail(errno);
  Fd program_end(ends[0]);
  Fd peer = out_of_the_way(Fd(ends[1]));
  std::unique_ptr<File> file(new (std::nothrow) NetlinkFile(std::move(peer)));
  if (!file) return fail(ENOMEM);
  if (!fd_table().set(program_end.get(), FdClass::netlink, file)) return fail(EMFILE);
  return program_end.release();
}

ssize_t netlink_request(int fd, const void* buffer, size_t size) {
  const Tree* tree = Tree::find();
  FdTable::Pin pin = fd_table().pin(fd);
  if (pin.kind() != FdClass::netlink || !tree) return -EBADF;
  static_cast<void>(tree->ready());  // without it there are no devices
  auto& file = pin.as<NetlinkFile>();
  auto devices = read_devices(std::string(tree->root()) + "/sys");
  auto answers = answer_netlink({static_cast<const u8*>(buffer), size}, file.port_id(), devices);
  for (const std::string& datagram : answers) {
    // A program that does not read its answers loses them, as with the kernel.
    if (::send(file.peer(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
      return errno == EAGAIN ? -ENOBUFS : -errno;
  }
  return static_cast<ssize_t>(size);
}

int netlink_bind(int fd, const sockaddr* address, socklen_t length) {
  if (!address || length < sizeof(sockaddr_nl) || address->sa_family != AF_NETLINK) return -EINVAL;
  FdTable::Pin pin = fd_table().pin(fd);
  if (pin.kind() != FdClass::netlink) return -EBADF;
  u32 wanted = reinterpret_cast<const sockaddr_nl*>(address)->nl_pid;
  if (wanted != 0) pin.as<NetlinkFile>().set_port_id(wanted);
  return 0;
}

int netlink_name(int fd, sockaddr* address, socklen_t* length) {
  FdTable::Pin pin = fd_table().pin(fd);
  if (pin.kind() != FdClass::netlink) return -EBADF;
  if (!address || !length) return -EFAULT;
  put_address(pin.as<NetlinkFile>().port_id(), address, length);
  return 0;
}

int netlink_get_option(int level, int option, void* value, socklen_t* length, bool& known) {
  known = level == SOL_SOCKET && (option == SO_DOMAIN || option == SO_PROTOCOL || option == SO_TYPE);
  if (!known) return 0;
  if (!value || !length || *length < sizeof(int)) return -EINVAL;
  int answer = option == SO_DOMAIN ? AF_NETLINK : option == SO_PROTOCOL ? NETLINK_RDMA : SOCK_RAW;
  std::memcpy(value, &answer, sizeof answer);
  *length = sizeof answer;
  return 0;
}

void show_kernel_address(void* address, socklen_t* length) { put_address(0, address, length); }

}  // namespace softib::shim
