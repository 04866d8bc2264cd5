// How a management packet travels from the port that sends it to the agent or observer that it is for.
#pragma once

#include "net/world.h"

namespace softib::net {

// LRH, BTH, DETH, the MAD and ICRC in 4-byte words; a global route header more.
inline constexpr u32 mad_words = (8 + 12 + 8 + wire::mad_size + 4) / 4;
inline constexpr u32 grh_words = 40 / 4;

// From the port's queue pair 0 or 1 to wherever it is for.
void carry(World& world, PortRef from, Packet& packet);

// One link: counts it on both sides; gives what a bad link does to it. A slow one adds to `delay`.
[[nodiscard]] Loss cross(World& world, u32 out, const Packet& packet, u64& delay);
// The same for what data does on its way: counters only.
void count_hop(World& world, const Hop& hop, const Network::Traffic& traffic);

// Follows the tables. The port through which it came into the node that it is for, or none: losses are counted.
[[nodiscard]] u32 route_by_lid(World& world, u32 from, const Packet& packet, u64& delay);

// The rules of directed routes, from the port `from` on: a request, or an answer on its way back.
void carry_directed(World& world, u32 from, Packet& packet);

// Permissive LID: to whoever is at the other end of the link.
void carry_one_link(World& world, u32 from, Packet& packet);

// It comes to its node through port `at` (port 0: from within): now, or when the links have let go of it.
void arrive(World& world, u32 at, Packet& packet, u64 delay);
// It is there.
void deliver(World& world, u32 at, Packet& packet);

}  // namespace softib::net
