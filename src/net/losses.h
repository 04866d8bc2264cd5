// What a lost packet does to the counters of the port where it got lost.
#pragma once

#include "net/world.h"

namespace softib::net {

void lose_packet(World& world, Port& at, Loss loss, bool leaving, const BadKey& packet, u64 times);
void count_cause(World& world, Port& port, Cause cause, u64 times);
void count_violations(Port& port, u64 p_keys, u64 q_keys);
// Of the general services' own queue pair.
void refuse_q_key(World& world, Port& port, const BadKey& packet);

}  // namespace softib::net
