// One order for fabrics that say the same in different orders.
#pragma once

#include "fabric/fabric.h"

namespace softib::fabric::topo {

// Hosts and switches by name (numbers in names count as numbers; aggregation nodes behind servers), cables by their
// ends: those of HCAs first, each with the HCA's end in front. What is there stays as it is otherwise.
[[nodiscard]] Fabric sorted(Fabric fabric);

// The same cable with the ends in that order, and which of two such comes first.
[[nodiscard]] Cable ordered(Cable cable);
[[nodiscard]] bool cable_less(const Cable& x, const Cable& y);

}  // namespace softib::fabric::topo
