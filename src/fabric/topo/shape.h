// What a fabric looks like from afar: tiers of switches, how the cables between them add up, what strikes the eye.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

// Per switch: 1 where a server is cabled, else one more than the lowest neighbour; 0 when no server can be reached.
[[nodiscard]] std::vector<u32> tiers_of(const Fabric& fabric);

struct TierSummary {
  u32 tier = 0;
  u32 switches = 0;
  u32 ports = 0;
  u32 used_ports = 0;
  u32 cables_down = 0;  // to servers, for tier 1
  u32 cables_across = 0;
  u32 cables_up = 0;
  u64 mbps_down = 0;
  u64 mbps_up = 0;
};

struct Shape {
  u32 servers = 0;
  u32 hcas = 0;  // of servers
  u32 ports = 0;
  u32 cabled_ports = 0;
  u32 aggregation_nodes = 0;
  u32 cables = 0;
  u32 subnets = 0;  // among cabled ports
  std::vector<TierSummary> tiers;
  u64 halves_mbps = 0;       // what the network carries from the first half of the servers to the second
  u64 halves_most_mbps = 0;  // what they could send and take
};
[[nodiscard]] Shape shape_of(const Fabric& fabric);

// Things that are allowed and seldom meant, one line each: ports without cables, several subnets, links that run below
// their ends, switches with fewer uplinks than the others of their tier.
[[nodiscard]] std::vector<std::string> oddities(const Fabric& fabric);

}  // namespace softib::fabric::topo
