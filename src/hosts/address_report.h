// Tells softibd which IP addresses a host's interfaces over InfiniBand have, so that rdma_cm knows its ports by them:
// those of the fabric file first, then whatever `ip addr add` and `ip addr del` make of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hosts/place.h"
#include "ipc/protocol.h"
#include "rtnl/rtnl.h"

namespace softib::hosts {

// An interface of the host's, and the port that is behind it.
struct PortInterface {
  std::string name;
  std::string device;
  u32 port = 0;

  friend auto operator<=>(const PortInterface&, const PortInterface&) = default;
};
// Of "ib0=mlx5_0/1,address=10.0.0.1/16".
[[nodiscard]] std::optional<PortInterface> port_interface(std::string_view text);
// The P_Key of an interface that is `parent` (0: the port's first) or a child of it, as ib0.8001. nullopt: neither.
[[nodiscard]] std::optional<u16> partition_of(std::string_view interface, std::string_view parent);

class AddressReport {
 public:
  AddressReport(std::string folder, const PlaceSpec& spec);

  // In the host's network.
  void start();
  // What to poll; -1: nothing.
  [[nodiscard]] int fd() const { return watch_ ? watch_->fd() : -1; }
  // Something has changed.
  void look();

 private:
  void look_at(const PortInterface& port, const std::vector<rtnl::InterfaceAddress>& all);
  [[nodiscard]] bool tell(const ipc::SetAddresses::Request& request) const;

  std::string folder_;
  std::string host_;
  std::vector<PortInterface> ports_;
  std::optional<rtnl::Watch> watch_;
  rtnl::Socket socket_;
  std::map<std::string, std::vector<rtnl::InterfaceAddress>> told_;  // by the interface
};

}  // namespace softib::hosts
