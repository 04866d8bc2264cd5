// The names under which hosts and their interfaces are reached.
#pragma once

#include <string>

#include "fabric/fabric.h"

namespace softib::fabric {

// "ib0", "ib1", ... on InfiniBand, "roce0", ... on Ethernet: ports of a host, counted through its HCAs.
[[nodiscard]] std::string interface_name(LinkLayer link_layer, u32 port);

// A file as /etc/hosts. For hosts with a network of their own: `host1` is eth0, `host1-ib0` its first port, `host1-ip6`
// eth0 by its IPv6 address, and `machine` where programs outside are.
[[nodiscard]] std::string hosts_text(const Fabric& fabric, std::string_view machine);

// For hosts that are but an environment: names lead to loopback addresses, `host1` to that of its first port.
[[nodiscard]] std::string plain_hosts_text(const Fabric& fabric);

}  // namespace softib::fabric
