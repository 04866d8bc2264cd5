// The port numbers of a host, in each of rdma_cm's port spaces: who is bound to which.
#pragma once

#include <map>
#include <random>
#include <vector>

#include "daemon/rdma_cm/socket_address.h"

namespace softib::daemon {

enum class PortSpace : u16 { none = 0, ipoib = 0x0002, ib = 0x013f, tcp = 0x0106, udp = 0x0111 };

class PortSpaces {
 public:
  struct Binding {
    u32 id = 0;
    SocketAddress address;
    bool reuse = false;
    bool only_family = false;  // an IPv6 one leaves IPv4's ports alone
    bool listens = false;
  };

  // The port that it got: the one of its address, or any free one. EADDRINUSE, EADDRNOTAVAIL: another has it.
  Result<u16> bind(PortSpace space, const Binding& binding);
  void release(PortSpace space, u16 port, u32 id);
  // From now on nobody shares the port. EADDRINUSE, EADDRNOTAVAIL.
  Result<void> listen(PortSpace space, u16 port, u32 id);
  [[nodiscard]] std::vector<u32> listeners(PortSpace space, u16 port) const;

 private:
  using Place = std::pair<PortSpace, u16>;
  Result<u16> any_port(PortSpace space);

  std::map<Place, std::vector<Binding>> bindings_;
  std::minstd_rand random_{1};
};

}  // namespace softib::daemon
