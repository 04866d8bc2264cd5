#include "shim/machine.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "fabric/addresses.h"
#include "shim/names.h"
#include "shim/questions.h"
#include "shim/tree.h"

namespace softib::shim {

namespace {

struct Option {
  int level;
  int name;
};

// Those that programs set before they connect; buffers as the kernel has doubled them already stay at their defaults.
constexpr std::array copied{Option{SOL_SOCKET, SO_KEEPALIVE}, Option{SOL_SOCKET, SO_LINGER},
                            Option{SOL_SOCKET, SO_RCVTIMEO},  Option{SOL_SOCKET, SO_SNDTIMEO},
                            Option{IPPROTO_TCP, TCP_NODELAY}, Option{IPPROTO_TCP, TCP_KEEPIDLE},
                            Option{IPPROTO_TCP, TCP_KEEPCNT}, Option{IPPROTO_TCP, TCP_KEEPINTVL}};

bool is_stream(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

void copy_options(int from, int to) {
  for (const Option& option : copied) {
    char value[64];
    socklen_t size = sizeof value;
    if (::getsockopt(from, option.level, option.name, value, &size) == 0)
      ::setsockopt(to, option.level, option.name, value, size);
  }
}

bool take_place_of(int fd, Fd other) {
  copy_options(fd, other.get());
  const int status = ::fcntl(fd, F_GETFL);
  const int flags = ::fcntl(fd, F_GETFD);
  if (status < 0 || flags < 0 || ::fcntl(other.get(), F_SETFL, status) < 0) return false;
  return ::dup3(other.get(), fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) >= 0;
}

// With the bytes of the address changed.
void put_address_bytes(sockaddr_storage& to, const u8 (&bytes)[16]) {
  if (to.ss_family == AF_INET)
    std::memcpy(&reinterpret_cast<sockaddr_in&>(to).sin_addr, bytes, sizeof(in_addr));
  else
    std::memcpy(&reinterpret_cast<sockaddr_in6&>(to).sin6_addr, bytes, sizeof(in6_addr));
}

Result<ipc::MachineSocket::Reply> ask_for_socket(const Tree& tree, const HostAddress& address, Way way, Fd& socket) {
  ipc::MachineSocket::Request request{static_cast<u32>(address.family), way == Way::none ? 1U : 0U, {}};
  std::memcpy(request.address, address.bytes.data(), sizeof request.address);
  auto line = Line::take(tree.folder());
  if (!line) return fail(line.error());
  auto reply = (*line)->client().call_fd<ipc::MachineSocket>(0, request, -1, &socket);
  if (reply || to_int(reply.error()) != EIO) Line::give_back(std::move(*line));
  return reply;
}

bool move_socket(int fd, const sockaddr* address, socklen_t length, Way way, sockaddr_storage& machine) {
  const Tree* tree = Tree::find();
  const auto wanted = tree ? address_in(address, length) : std::nullopt;
  if (!wanted || length > sizeof machine || !is_stream(fd)) return false;
  Fd socket;
  auto reply = ask_for_socket(*tree, *wanted, way, socket);
  if (!reply || !socket || !take_place_of(fd, std::move(socket))) return false;
  std::memcpy(&machine, address, length);
  put_address_bytes(machine, reply->address);
  return true;
}

}  // namespace

bool is_machine_on_network(const sockaddr* address, socklen_t length) {
  if (!address || length < sizeof(sockaddr_in) || address->sa_family != AF_INET) return false;
  sockaddr_in whole;
  std::memcpy(&whole, address, sizeof whole);
  return ntohl(whole.sin_addr.s_addr) == fabric::machine_address;
}

bool move_to_machine(int fd, const sockaddr* address, socklen_t length, Way way, sockaddr_storage& machine) {
  const int kept = errno;
  const bool moved = move_socket(fd, address, length, way, machine);
  errno = kept;
  return moved;
}

}  // namespace softib::shim
