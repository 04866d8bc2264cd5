// The numbers a fabric gives itself: GUIDs, GIDs, IPv4 addresses. The same description gives the same numbers, fabrics
// of different names different ones.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "fabric/fabric.h"

namespace softib::fabric {

// What tells long names apart in few digits.
[[nodiscard]] u16 short_hash(std::string_view text);

// An EUI-64 made from a locally administered MAC address of the form 52:hh:hh:nn:nn:nn:
//
//    63      56 55           40 39        24 23                 0
//   +----------+---------------+------------+--------------------+
//   |   0x52   | hash of name  |   0xfffe   |       node         |    (the bytes ff fe in the middle)
//   +----------+---------------+------------+--------------------+
//                                 node: bit 23 = switch, bits 22..4 = running number, bits 3..0 = port (0 = none)
[[nodiscard]] u64 hca_guid(std::string_view fabric, u32 hca_number, u32 port);
[[nodiscard]] u64 switch_guid(std::string_view fabric, u32 switch_number);

// fe80::/64 and the GUID.
[[nodiscard]] Gid link_local_gid(u64 guid);
// ::ffff:a.b.c.d
[[nodiscard]] Gid mapped_gid(u32 ipv4);
// What a port of this fabric has in its GID table when it comes up.
[[nodiscard]] std::vector<GidEntry> initial_gids(LinkLayer link_layer, const Port& port);

// Of a port: 10.rail.x.y, x.y = host number + 1; the network is 10.rail.0.0/16.
[[nodiscard]] u32 default_address(u32 host, u32 rail);
// Of a host's eth0, on the network that joins all hosts beside the fabric: 10.255.x.y.
[[nodiscard]] u32 ethernet_address(u32 host);
// Of a port where hosts have no network of their own: 127.(64 + rail).x.y, which every Linux takes for itself.
[[nodiscard]] u32 loopback_address(u32 host, u32 rail);
// Where the machine itself is on the hosts' Ethernet.
inline constexpr u32 machine_address = 10U << 24 | 255U << 16 | 255U << 8 | 254U;
inline constexpr u32 network_prefix = 16;  // bits, of all of these
[[nodiscard]] std::string ipv4_text(u32 address);

// eth0 has one of IPv6 too: fd53:6f66:7449:42::x, x = host number + 1.
using Ipv6 = std::array<u8, 16>;
[[nodiscard]] Ipv6 ethernet_address6(u32 host);
// The IPv6 counterpart of a port's default address: fd53:4942:rail::x. InfiniBand only.
[[nodiscard]] Ipv6 port_address6(u32 host, u32 rail);
inline constexpr u32 network_prefix6 = 64;
[[nodiscard]] std::string ipv6_text(const Ipv6& address);

}  // namespace softib::fabric
