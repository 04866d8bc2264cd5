// Forwarding tables for a subnet: which port of each switch leads to which LID. Flat arrays throughout.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"
#include "sm/subnet.h"
#include "sm/subnet_manager.h"

namespace softib::sm {

inline constexpr u32 lft_block = 64;  // LIDs in a block of a LinearForwardingTable

// The switches of a subnet and the cables between them.
struct Graph {
  struct Edge {
    u16 to;   // switch
    u8 port;  // of this switch
    u8 peer;  // port of the other
  };
  struct Destination {
    u16 lid;
    u16 sw;
    u8 port;      // of that switch; 0: itself
    u8 sub;       // which LID of its port, with LMC
    u16 in_leaf;  // its place among the CA ports of its switch
    bool counts;  // a host's: its paths are balanced
  };

  explicit Graph(const Subnet& subnet);

  u32 switches = 0;
  std::vector<u32> first;  // of each switch's edges; one more at the end
  std::vector<Edge> edges;
  std::vector<Destination> destinations;  // by switch
  std::vector<u32> first_destination;     // of each switch; one more at the end
  std::vector<u16> hosts;                 // CA and router ports at each switch, but for aggregation nodes

  [[nodiscard]] const Edge* begin(u32 sw) const { return edges.data() + first[sw]; }
  [[nodiscard]] const Edge* end(u32 sw) const { return edges.data() + first[sw + 1]; }
};

// One table for each switch, `width` entries each, a whole number of blocks.
struct Tables {
  u32 width = 0;
  std::vector<u8> ports;

  [[nodiscard]] std::span<u8> of(u32 sw) { return std::span(ports).subspan(std::size_t{sw} * width, width); }
  [[nodiscard]] std::span<const u8> of(u32 sw) const {
    return std::span(ports).subspan(std::size_t{sw} * width, width);
  }
};

inline constexpr u8 unreachable = 0xff;

// Ranks for up/down routing: 0 for the roots, and the order in which "up" goes.
struct Ranks {
  std::vector<u8> rank;
  std::vector<u32> key;  // "up" leads to a lower one; no two are the same
};

[[nodiscard]] std::vector<u8> hops_from(const Graph& graph, const std::vector<u32>& sources);
[[nodiscard]] Ranks rank_switches(const Graph& graph);
// Why a fabric is no pure fat tree; empty when it is.
[[nodiscard]] std::string why_no_fat_tree(const Graph& graph, const Ranks& ranks);

struct Routed {
  Tables tables;
  std::string remark;  // for people, when another way was taken than the one asked for
};
[[nodiscard]] Routed route(const Subnet& subnet, Routing routing);

}  // namespace softib::sm
