#include "coll/net/sockets.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace softib::coll {

namespace {

void set_number(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

// A host that vanished, by a cut of power for example, is noticed within a minute.
void set_up_stream(int fd) {
  constexpr int silent_s = 10, between_s = 10, tries = 5, unacknowledged_ms = 60'000;
  set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_number(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_number(fd, IPPROTO_TCP, TCP_KEEPIDLE, silent_s);
  set_number(fd, IPPROTO_TCP, TCP_KEEPINTVL, between_s);
  set_number(fd, IPPROTO_TCP, TCP_KEEPCNT, tries);
  set_number(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, unacknowledged_ms);
}

Result<Fd> open_stream(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail(errno);
  return fd;
}

}  // namespace

Result<Fd> listen_at(const Address& address) {
  auto fd = open_stream(address.family());
  if (!fd) return fd;
  set_number(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_number(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (::bind(fd->get(), address.data(), address.size()) != 0) return fail(errno);
  if (::listen(fd->get(), SOMAXCONN) != 0) return fail(errno);
  return fd;
}

std::optional<Address> local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  return Address::of(storage);
}

std::optional<Address> address_towards(const Address& to) {
  const Fd fd(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), to.data(), to.size()) != 0) return std::nullopt;
  return local_address(fd.get());
}

Result<Fd> begin_connect(const Address& to) {
  auto fd = open_stream(to.family());
  if (!fd) return fd;
  set_up_stream(fd->get());
  // EINTR: it goes on in the background, as with EINPROGRESS.
  if (::connect(fd->get(), to.data(), to.size()) != 0 && errno != EINPROGRESS && errno != EINTR) return fail(errno);
  return fd;
}

Result<void> connect_result(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return fail(errno);
  if (error != 0) return fail(error);
  return {};
}

Result<std::optional<Fd>> accept_one(int listener) {
  while (true) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      set_up_stream(fd.get());
      return fd;
    }
    if (errno == EAGAIN) return std::nullopt;
    // The others say of one connection that it broke before it was taken.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM || errno == EBADF || errno == EINVAL)
      return fail(errno);
  }
}

u64 unacknowledged_bytes(int fd) {
  int count = 0;
  return ::ioctl(fd, SIOCOUTQ, &count) == 0 && count > 0 ? static_cast<u64>(count) : 0;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int milliseconds_until(Clock::time_point when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
  return static_cast<int>(std::clamp<i64>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace softib::coll
