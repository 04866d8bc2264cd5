// Where the tables lead a packet that goes by LID: from hop to hop, and why it ends.
#pragma once

#include "net/links.h"
#include "wire/smp_attributes.h"

namespace softib::net {

inline constexpr u32 most_hops = 64;  // what goes on longer turns in circles

struct Flow {
  u16 dlid = 0;
  u8 sl = 0;
  u16 pkey = 0;
  bool management = false;  // SMPs: on VL 15, without P_Key, over links that aren't active yet
};

struct Trace {
  Loss loss = Loss::none;
  u32 end = 0;           // port index
  bool leaving = false;  // lost on its way out of `end`
  u32 through = 0;       // where it came into the node that it is for; port 0 is behind that
};

[[nodiscard]] u8 linear_port(const Node& node, u16 lid);
[[nodiscard]] bool accepts_pkey(const Port& port, u16 pkey);  // of a packet that comes in
[[nodiscard]] bool lets_in(const Port& port, u16 pkey);       // at a switch that enforces partitions
[[nodiscard]] bool has_pkey(const Port& port, u16 pkey);      // to send with
// VL 15 means that the switch drops it.
[[nodiscard]] bool dropped_by_sl(const World& world, const Port& in, const Port& out, u8 sl);
[[nodiscard]] Loss leaving(const World& world, const Port& in, const Port& out, const Flow& flow);
[[nodiscard]] Loss starting(const World& world, const Port& from, const Flow& flow);
[[nodiscard]] Loss arriving(const Port& end, const Flow& flow);

// What a switch does with it: `end` is the port that it leaves by (port 0: it's here), or where it got lost.
[[nodiscard]] Trace step(const World& world, const Port& in, const Flow& flow);

// `cross(out, in)`: for each link on the way; a loss that it gives ends the way there.
template <typename Cross>
Trace trace(const World& world, u32 from, const Flow& flow, Cross&& cross) {
  if (const Loss loss = starting(world, world.ports[from], flow); loss != Loss::none) return {loss, from, true};
  u32 at = from;
  for (u32 hop = 0; hop < most_hops; ++hop) {
    const Port& here = world.ports[at];
    u32 next = at;
    if (world.node(here).sw) {
      const Trace taken = step(world, here, flow);
      if (taken.loss != Loss::none) return taken;
      next = taken.end;
      if (world.ports[next].ref.port == 0) return {arriving(world.ports[next], flow), next, false, at};
    } else if (hop > 0 || has_lid(here, flow.dlid)) {
      return {arriving(here, flow), at, false, at};
    }
    const Port& out = world.ports[next];
    if (!(flow.management ? carries_management(world, out) : carries_data(world, out)))
      return {Loss::link_down, next, true};
    at = out.peer;
    const Port& in = world.ports[at];
    if (const Loss loss = cross(out, in); loss != Loss::none) return {loss, at};
    if (!flow.management && in.enforce_in && !lets_in(in, flow.pkey)) return {Loss::bad_pkey, at};
  }
  return {Loss::loop, at};
}

[[nodiscard]] Path walk(const World& world, PortRef from, const Flow& flow);
[[nodiscard]] std::vector<Path> walk_multicast(const World& world, PortRef from, const Flow& flow);

}  // namespace softib::net
