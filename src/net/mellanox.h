// The agent of Mellanox' own management class, which the firmware of its switches and HCAs has.
#pragma once

#include "net/world.h"

namespace softib::net {

[[nodiscard]] bool has_mellanox_agent(const Node& node);
// Answers a Get or Set in place (the data; not the header).
[[nodiscard]] wire::MadStatus mellanox(const World& world, const Node& node, Packet& packet);

}  // namespace softib::net
