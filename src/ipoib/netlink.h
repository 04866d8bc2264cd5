// What the service asks of the network namespace: makes the interface ready, tells of its addresses, of what routes
// say, and of groups.
#pragma once

#include <optional>
#include <vector>

#include "ipoib/addresses.h"
#include "rtnl/rtnl.h"

namespace softib::ipoib {

struct LinkSettings {
  std::optional<u32> mtu;
  std::optional<bool> up;
  std::optional<u32> most_segments;  // that the kernel may leave in one packet
  std::optional<std::array<u8, HardwareAddress::size>> broadcast;
  bool no_generated_address = false;  // the IPv6 link-local one is ours to make
};

class Netlink {
 public:
  [[nodiscard]] static Result<Netlink> open();

  [[nodiscard]] Result<void> set_link(u32 index, const LinkSettings& settings);
  // The interface is up, but the kernel loses still what there is to send: it notices a carrier in its own time, and
  // only then gives the interface a queue.
  [[nodiscard]] Result<bool> is_about_to_send(u32 index);
  [[nodiscard]] Result<void> add_address(u32 index, const Prefixed& address);
  [[nodiscard]] Result<std::vector<Prefixed>> addresses(u32 index);
  // Whom a packet for `destination` is handed to when it leaves through the interface; itself when that is the
  // destination.
  [[nodiscard]] Result<Ip> next_hop(u32 index, const Ip& destination);

 private:
  rtnl::Socket socket_;
};

// The groups that programs and the kernel itself have joined on an interface, from /proc/net.
[[nodiscard]] std::vector<Ip> joined_groups(const std::string& interface);
// The same of the texts of /proc/net/igmp and /proc/net/igmp6.
[[nodiscard]] std::vector<Ip> parse_groups(const std::string& interface, std::string_view igmp, std::string_view igmp6);

}  // namespace softib::ipoib
