// Aggregation nodes of switches, which in-network reduction (SHARP) is done on: HCAs of hosts of kind aggregation. A
// switch that the fabric file gives one has it on a port of its own.
#pragma once

#include <vector>

#include "fabric/complete.h"
#include "fabric/fabric.h"

namespace softib::fabric {

// Gives each switch with `aggregation` a node that has none yet: HCA "SWITCH-an" of a host "aggregation", or of more
// such hosts where one can't hold them all. Indices in cables must be right. A fault: a switch has no port left.
[[nodiscard]] Check add_aggregation_nodes(Fabric& fabric);

// On which softib-aggregation is to run, by their indices: those with an HCA at a switch with `aggregation`.
[[nodiscard]] std::vector<u32> aggregation_hosts(const Fabric& fabric);

}  // namespace softib::fabric
