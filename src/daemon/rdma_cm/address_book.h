// Which IP address belongs to which port: what a host's neighbour tables would say.
#pragma once

#include <map>
#include <vector>

#include "daemon/rdma_cm/socket_address.h"
#include "fabric/fabric.h"
#include "ipc/segment.h"

namespace softib::daemon {

struct BookedAddress {
  u32 port = 0;  // index in the segment
  Ip ip{};
  u8 prefix = 0;  // bits of `ip` that name its network
  u16 pkey = 0;   // of the interface; 0: the port's first
};

class AddressBook {
 public:
  // The fabric's own addresses; what hosts without a network of their own have instead is there too.
  AddressBook(const fabric::Fabric& fabric, const ipc::Segment& segment);

  // Replaces the addresses of a port.
  void set(u32 port, std::vector<BookedAddress> addresses);

  // Whose address it is. `host`: that host's only.
  [[nodiscard]] const BookedAddress* find(const Ip& ip) const;
  [[nodiscard]] const BookedAddress* find_on_host(u32 host, const Ip& ip) const;
  // The address from which a host reaches another one: of those whose network holds it the one with the longest prefix.
  [[nodiscard]] const BookedAddress* source_for(u32 host, const Ip& destination) const;
  // The port's first address of the same kind.
  [[nodiscard]] const BookedAddress* first_of_port(u32 port, bool ipv4) const;

 private:
  [[nodiscard]] u32 host_of(u32 port) const;
  void index();

  const ipc::Segment& segment_;
  std::map<u32, std::vector<BookedAddress>> of_port_;
  std::multimap<Ip, BookedAddress> by_ip_;
};

}  // namespace softib::daemon
