// Wrappers of socket calls: RDMA netlink, and descriptors that arrive by SCM_RIGHTS.
#include <linux/netlink.h>

#include <string>

#include "ipc/passed_fds.h"
#include "shim/libc.h"
#include "shim/machine.h"
#include "shim/netlink_file.h"
#include "shim/on.h"

namespace softib::shim {

namespace {

bool is_netlink(int fd) { return classify(fd).kind == FdClass::netlink; }

ssize_t request_from(int fd, const msghdr* message) {
  if (!message) return -EFAULT;
  std::string whole;
  for (size_t i = 0; i < message->msg_iovlen; ++i)
    whole.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  return netlink_request(fd, whole.data(), whole.size());
}

// Sockets and pipes that another process sent may be a context's: found out when they are used as such.
void note_received(int fd) {
  struct stat status;
  if (libc::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
    fd_table().set_received(fd);
  else
    fd_table().clear(fd);
}

}  // namespace

namespace on {

int socket(int domain, int type, int protocol) {
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA || !Tree::find())
    return fresh(libc::socket(domain, type, protocol));
  auto opened = open_netlink(type);
  return to_libc(opened ? *opened : -to_int(opened.error()));
}

int bind(int fd, const sockaddr* address, socklen_t length) {
  return is_netlink(fd) ? to_libc(netlink_bind(fd, address, length)) : libc::bind(fd, address, length);
}

int connect(int fd, const sockaddr* address, socklen_t length) {
  if (is_netlink(fd)) return 0;
  sockaddr_storage machine;
  if (is_machine_on_network(address, length) && move_to_machine(fd, address, length, Way::unknown, machine))
    return libc::connect(fd, reinterpret_cast<sockaddr*>(&machine), length);
  const int done = libc::connect(fd, address, length);
  if (done == 0 || (errno != ENETUNREACH && errno != EHOSTUNREACH)) return done;
  if (!move_to_machine(fd, address, length, Way::none, machine)) return done;
  return libc::connect(fd, reinterpret_cast<sockaddr*>(&machine), length);
}

int getsockname(int fd, sockaddr* address, socklen_t* length) {
  return is_netlink(fd) ? to_libc(netlink_name(fd, address, length)) : libc::getsockname(fd, address, length);
}

int getsockopt(int fd, int level, int option, void* value, socklen_t* length) {
  if (is_netlink(fd)) {
    bool known = false;
    int done = netlink_get_option(level, option, value, length, known);
    if (known) return to_libc(done);
  }
  return libc::getsockopt(fd, level, option, value, length);
}

int setsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  if (level == SOL_NETLINK && is_netlink(fd)) return 0;  // they ask for more detail in answers than is there
  return libc::setsockopt(fd, level, option, value, length);
}

ssize_t send(int fd, const void* buffer, size_t size, int flags) {
  return is_netlink(fd) ? to_libc(netlink_request(fd, buffer, size)) : libc::send(fd, buffer, size, flags);
}

ssize_t sendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* to, socklen_t length) {
  if (is_netlink(fd)) return to_libc(netlink_request(fd, buffer, size));
  return libc::sendto(fd, buffer, size, flags, to, length);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return is_netlink(fd) ? to_libc(request_from(fd, message)) : libc::sendmsg(fd, message, flags);
}

ssize_t recvfrom(int fd, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length) {
  socklen_t room = from && length ? *length : 0;
  ssize_t got = libc::recvfrom(fd, buffer, size, flags, from, length);
  if (got >= 0 && room && is_netlink(fd)) {
    *length = room;
    show_kernel_address(from, length);
  }
  return got;
}

ssize_t __recvfrom_chk(int fd, void* buffer, size_t size, size_t room, int flags, sockaddr* from, socklen_t* length) {
  if (size > room || !is_netlink(fd)) return libc::__recvfrom_chk(fd, buffer, size, room, flags, from, length);
  return on::recvfrom(fd, buffer, size, flags, from, length);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  socklen_t room = message ? message->msg_namelen : 0;
  ssize_t got = libc::recvmsg(fd, message, flags);
  if (got < 0) return got;
  if (message->msg_controllen > 0 && Tree::find()) ipc::for_each_passed_fd(*message, note_received);
  if (is_netlink(fd)) {
    message->msg_namelen = room;
    show_kernel_address(message->msg_name, &message->msg_namelen);
  }
  return got;
}

}  // namespace on

}  // namespace softib::shim
