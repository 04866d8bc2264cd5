// Interfaces, addresses and routes of a network namespace, by rtnetlink.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "fabric/addresses.h"
#include "rtnl/rtnl.h"

namespace softib::hosts {

using fabric::Parsed;

struct Ipv4Network {
  u32 address = 0;  // host order
  u32 prefix = 0;
  friend bool operator==(const Ipv4Network&, const Ipv4Network&) = default;
};

[[nodiscard]] bool overlap(const Ipv4Network& a, const Ipv4Network& b);
// The few networks that hold these addresses and no others.
[[nodiscard]] std::vector<Ipv4Network> networks_of(u32 first, u32 last);

using Mac = std::array<u8, 6>;
using fabric::Ipv6;

// A connection to the namespace in which it was made, wherever this process goes afterwards. Errors are lines for
// people.
class Netlink {
 public:
  [[nodiscard]] static Parsed<Netlink> open();

  [[nodiscard]] Parsed<void> add_bridge(const std::string& name);

  // Two Ethernet interfaces that are joined: `name` here as a port of `bridge`, and up; `far` in the namespace of
  // process `pid`, or in that of a descriptor.
  struct Pair {
    std::string name;
    std::string bridge;
    std::string far;
    pid_t pid = 0;
    int far_namespace = -1;
    std::optional<Mac> far_mac{};
  };
  [[nodiscard]] Parsed<void> add_pair(const Pair& pair);
  [[nodiscard]] Parsed<void> remove(const std::string& name);

  [[nodiscard]] Parsed<void> set_up(const std::string& name);
  [[nodiscard]] Parsed<void> add_address(const std::string& name, const Ipv4Network& address);
  [[nodiscard]] Parsed<void> add_address(const std::string& name, const Ipv6& address, u32 prefix);
  // Addresses of this network are behind that interface.
  [[nodiscard]] Parsed<void> add_route(const std::string& name, const Ipv4Network& network);

  [[nodiscard]] bool has(const std::string& name);
  // Who uses addresses of this network already: an interface's address or a route, the default route not counted.
  struct Use {
    std::string interface;
    Ipv4Network network;
  };
  [[nodiscard]] std::optional<Use> user_of(const Ipv4Network& network);

 private:
  explicit Netlink(rtnl::Socket socket) : socket_(std::move(socket)) {}
  [[nodiscard]] int index_of(const std::string& name);  // 0: there is none
  [[nodiscard]] std::string name_of(int index);
  [[nodiscard]] std::optional<Use> address_in(const Ipv4Network& network);
  [[nodiscard]] std::optional<Use> route_in(const Ipv4Network& network);
  [[nodiscard]] Parsed<void> give(const std::string& name, rtnl::InterfaceAddress address);

  rtnl::Socket socket_;
};

}  // namespace softib::hosts
