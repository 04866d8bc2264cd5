// Sockets of this process's network, which is the machine's, for programs on hosts.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "base/release.h"
#include "daemon/control.h"
#include "daemon/hosts_keeper.h"
#include "fabric/addresses.h"

namespace softib::daemon {

namespace {

bool is_on_network(const ipc::MachineSocket::Request& request) {
  u32 bytes;
  std::memcpy(&bytes, request.address, sizeof bytes);
  return request.family == AF_INET && ntohl(bytes) == fabric::machine_address;
}

bool holds(const sockaddr* address, const ipc::MachineSocket::Request& request) {
  if (!address || address->sa_family != request.family) return false;
  if (request.family == AF_INET)
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr, request.address, 4) == 0;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, request.address, 16) == 0;
}

// Loopback is each host's own.
bool is_machines(const ipc::MachineSocket::Request& request) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) < 0) return false;
  const std::unique_ptr<ifaddrs, Release<::freeifaddrs>> list(all);
  for (const ifaddrs* one = all; one; one = one->ifa_next)
    if (!(one->ifa_flags & IFF_LOOPBACK) && holds(one->ifa_addr, request)) return true;
  return false;
}

}  // namespace

Result<ipc::MachineSocket::Reply> Control::machine_socket(Caller& caller, const ipc::MachineSocket::Request& request) {
  if (request.family != AF_INET && request.family != AF_INET6) return fail(EAFNOSUPPORT);
  if (!keeper_ || keeper_->kind() != ipc::PlaceKind::namespaces) return fail(ENETUNREACH);
  ipc::MachineSocket::Reply reply{};
  if (is_on_network(request)) {
    if (!keeper_->link().empty()) return fail(ENETUNREACH);
    const u32 loopback = htonl(INADDR_LOOPBACK);
    std::memcpy(reply.address, &loopback, sizeof loopback);
  } else {
    if (!request.is_last_try || !is_machines(request)) return fail(ENETUNREACH);
    std::memcpy(reply.address, request.address, sizeof reply.address);
  }
  Fd socket(::socket(static_cast<int>(request.family), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return fail(errno);
  caller.given = std::move(socket);
  return reply;
}

}  // namespace softib::daemon
