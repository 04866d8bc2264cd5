// What goes wrong on purpose: cables, power, counters.
#pragma once

#include "net/world.h"

namespace softib::net {

void set_cut(World& world, Port& port, bool cut);
void limit_link(World& world, Port& port, std::optional<fabric::Speed> speed, std::optional<fabric::Width> width);
void set_quality(World& world, Port& port, const LinkQuality& quality);
bool enable_ports(World& world, Port& port);
void set_power(World& world, u32 node, bool on);
void swap_cables(World& world, Port& a, Port& b);
[[nodiscard]] LinkFaults faults_of(const World& world, const Port& port);

// Links with a bit error rate have errors all the time, since they always carry symbols. Gives when to look again.
u64 count_errors(World& world);

}  // namespace softib::net
