#include "net/route.h"

#include <algorithm>

#include "wire/pkey.h"

namespace softib::net {

namespace {

u8 vl_of(std::span<const u8> map, u8 sl) { return static_cast<u8>(wire::get(map, wire::sl_to_vl::vl(sl & 15U))); }

}  // namespace

u8 linear_port(const Node& node, u16 lid) {
  const Switching& sw = *node.sw;
  return lid <= sw.linear_top && lid < sw.linear.size() ? sw.linear[lid] : wire::linear_forwarding::no_port;
}

bool accepts_pkey(const Port& port, u16 pkey) {
  return std::any_of(port.pkeys.begin(), port.pkeys.end(), [&](u16 own) { return wire::keys_match(own, pkey); });
}

// The subnet manager copies the table of whatever is behind the port there: what that may send comes in.
bool lets_in(const Port& port, u16 pkey) {
  return std::any_of(port.pkeys.begin(), port.pkeys.end(), [&](u16 own) {
    return wire::same_partition(own, pkey) && (own & wire::full_member || !(pkey & wire::full_member));
  });
}

bool has_pkey(const Port& port, u16 pkey) {
  return std::any_of(port.pkeys.begin(), port.pkeys.end(), [&](u16 own) { return wire::same_partition(own, pkey); });
}

bool dropped_by_sl(const World& world, const Port& in, const Port& out, u8 sl) {
  constexpr u8 dropping_vl = 15;
  const Node& node = world.node(in);
  if (node.sw->sl_to_vl.empty()) return false;
  const size_t at = (size_t{in.ref.port} * (node.ports + 1U) + out.ref.port) * 8;
  return vl_of(std::span(node.sw->sl_to_vl).subspan(at, 8), sl) == dropping_vl;
}

Loss leaving(const World& world, const Port& in, const Port& out, const Flow& flow) {
  if (flow.management) return Loss::none;
  if (out.ref.port != 0 && dropped_by_sl(world, in, out, flow.sl)) return Loss::dropped;
  if (out.enforce_out && !accepts_pkey(out, flow.pkey)) return Loss::bad_pkey;
  return Loss::none;
}

Loss starting(const World& world, const Port& from, const Flow& flow) {
  const Node& node = world.node(from);
  if (!node.on) return Loss::source_down;
  if (flow.management) return Loss::none;
  if (!node.sw && from.state != ipc::PortState::active) return Loss::source_down;
  return has_pkey(from, flow.pkey) ? Loss::none : Loss::bad_pkey;
}

Loss arriving(const Port& end, const Flow& flow) {
  if (flow.dlid < wire::first_multicast_lid && !has_lid(end, flow.dlid)) return Loss::no_route;
  return flow.management || accepts_pkey(end, flow.pkey) ? Loss::none : Loss::bad_pkey;
}

Trace step(const World& world, const Port& in, const Flow& flow) {
  const Node& node = world.node(in);
  const u8 number = linear_port(node, flow.dlid);
  const u32 here = node.first + in.ref.port;
  if (number > node.ports) return {Loss::no_route, here};
  if (number == in.ref.port && number != 0) return {Loss::loop, here};
  const u32 out = node.first + number;
  const Loss loss = leaving(world, in, world.ports[out], flow);
  return {loss, out, true};
}

Path walk(const World& world, PortRef from, const Flow& flow) {
  Path path;
  const Trace way = trace(world, world.index(from), flow, [&](const Port& out, const Port& in) {
    path.hops.push_back({out.ref, in.ref});
    return Loss::none;
  });
  path.loss = way.loss;
  path.end = world.ports[way.end].ref;
  path.leaving = way.leaving;
  return path;
}

}  // namespace softib::net
