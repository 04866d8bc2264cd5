// Which ports are used, by which of their addresses, and which port of one rank talks to which of another. Pure
// functions of what the HCAs tell.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace softib::coll::verbs {

enum class LinkLayer : u8 { infiniband, ethernet };
enum class GidKind : u8 { infiniband, roce_v1, roce_v2 };

using Gid = std::array<u8, 16>;

struct GidEntry {
  u32 index = 0;
  Gid gid{};
  GidKind kind = GidKind::infiniband;
};

[[nodiscard]] const char* name_of(LinkLayer layer);  // "IB", "RoCE"
[[nodiscard]] const char* name_of(GidKind kind);
[[nodiscard]] bool is_ipv4(const Gid& gid);  // ::ffff:a.b.c.d
[[nodiscard]] std::string text_of(const Gid& gid);

// NCCL's rule: the entry that the user names; else on InfiniBand the first; on Ethernet RoCE v2 before v1, IPv4 before
// IPv6, link-local ones last, and of equals the first. Nothing: the table has none that would do.
[[nodiscard]] std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, LinkLayer layer,
                                                 std::optional<u32> wanted);

// What the other ranks learn of a port. Sent as it lies in memory.
struct PortAddress {
  std::array<char, 32> name{};  // "mlx5_0:1"
  Gid gid{};
  u32 mtu = 0;       // bytes
  u32 pool_key = 0;  // of this rank's bounce slots, for what comes in here
  u16 lid = 0;
  LinkLayer layer = LinkLayer::infiniband;
  GidKind gid_kind = GidKind::infiniband;
};

// Two ports that talk to each other: places in the lists of the rank with the lower number, and of the other.
struct RailPair {
  u32 lower = 0;
  u32 higher = 0;
};

// Both ranks get the same pairs, since both give the lists in the same order. Ports of one subnet pair first, in the
// order of the lists; where there are none, ports of unequal subnets, which routers may join. Ports of unequal kinds
// never pair. Empty: there is no way, and `why_no_way` tells the reason.
[[nodiscard]] std::vector<RailPair> pair_rails(std::span<const PortAddress> lower, std::span<const PortAddress> higher);
[[nodiscard]] std::string why_no_way(std::span<const PortAddress> mine, std::span<const PortAddress> theirs);

// A message between these two needs the global header.
[[nodiscard]] bool needs_global_route(const PortAddress& a, const PortAddress& b);

}  // namespace softib::coll::verbs
