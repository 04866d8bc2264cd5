// A fabric as a Graphviz graph: tiers from top to bottom, one edge for each bundle of cables.
#pragma once

#include <string>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

// each: a box for every host. count: one for all hosts that hang on the same switches, with their number.
enum class DrawHosts : u8 { each, count };

[[nodiscard]] std::string to_dot(const Fabric& fabric, DrawHosts hosts);

}  // namespace softib::fabric::topo
