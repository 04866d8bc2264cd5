// What comes to a node: its agents answer, or an observer gets it.
#include "net/losses.h"
#include "net/mellanox.h"
#include "net/pma/pma.h"
#include "net/sma/sma.h"
#include "net/transit.h"
#include "wire/pkey.h"

namespace softib::net {

namespace {

using wire::MadStatus;
using wire::Method;
using wire::MgmtClass;

constexpr u8 supported_version = 1;

void answer(World& world, u32 at, Packet& packet, MadStatus status) {
  const bool directed = wire::class_of(packet.mad) == MgmtClass::subn_directed;
  const bool one_link = !directed && packet.dlid == wire::permissive_lid;
  const auto code = static_cast<u16>(status);
  wire::set(packet.mad, wire::header::method, static_cast<u8>(Method::get_resp));
  wire::set(packet.mad, wire::header::status, directed ? code | wire::directed_bit : code);
  turn_round(packet);
  const Port& port = world.ports[at];
  const u32 from = world.index(world.managed(port).ref);
  if (directed) return carry_directed(world, from, packet);
  packet.pkey = wire::key_to_answer_with(world.ports[from].pkeys, packet.pkey);
  if (one_link) {
    packet.dlid = wire::permissive_lid;
    return carry_one_link(world, at, packet);
  }
  carry(world, world.ports[from].ref, packet);
}

void observe(World& world, u32 at, const Packet& packet) {
  world.observer.received(world.managed(world.ports[at]).ref, packet);
}

// Class versions of SM, PerfMgt and Mellanox' class are all 1.
bool version_fits(const Packet& packet) {
  return wire::get(packet.mad, wire::header::base_version) == supported_version &&
         wire::get(packet.mad, wire::header::class_version) == supported_version;
}

void to_sma(World& world, u32 at, Packet& packet) {
  const Method method = wire::method_of(packet.mad);
  const bool for_manager = wire::attribute_of(packet.mad) == static_cast<u16>(wire::SmpAttribute::sm_info);
  if (method == Method::trap_repress) return world.traps.repress(world.managed(world.ports[at]), packet.mad);
  if (wire::is_response(packet.mad) || method == Method::trap) return observe(world, at, packet);
  if (for_manager && (method == Method::get || method == Method::set)) return observe(world, at, packet);
  if (!version_fits(packet)) return answer(world, at, packet, MadStatus::bad_version);
  if (method != Method::get && method != Method::set) return answer(world, at, packet, MadStatus::bad_method);
  const Post::Hold hold(world.post);
  if (const auto status = sma(world, at, packet)) answer(world, at, packet, *status);
}

void to_pma(World& world, u32 at, Packet& packet) {
  const Method method = wire::method_of(packet.mad);
  if (!version_fits(packet)) return answer(world, at, packet, MadStatus::bad_version);
  if (method != Method::get && method != Method::set) return answer(world, at, packet, MadStatus::bad_method);
  world.observer.about_to_count();
  answer(world, at, packet, pma(world, world.ports[at], packet));
}

bool is_for_mellanox(const World& world, u32 at, const Packet& packet) {
  const Method method = wire::method_of(packet.mad);
  return wire::class_of(packet.mad) == MgmtClass::mellanox && (method == Method::get || method == Method::set) &&
         has_mellanox_agent(world.node(world.ports[at]));
}

void to_mellanox(World& world, u32 at, Packet& packet) {
  if (!version_fits(packet)) return answer(world, at, packet, MadStatus::bad_version);
  answer(world, at, packet, mellanox(world, world.node(world.ports[at]), packet));
}

// A switch has no programs, so no agents of other classes; a subnet manager beside it has its own.
bool is_unknown_class(const World& world, u32 at, const Packet& packet) {
  const Method method = wire::method_of(packet.mad);
  const MgmtClass kind = wire::class_of(packet.mad);
  return world.nodes[world.ports[at].ref.node].kind == NodeKind::sw && kind != MgmtClass::subn_adm &&
         kind != MgmtClass::performance && (method == Method::get || method == Method::set);
}

}  // namespace

void deliver(World& world, u32 at, Packet& packet) {
  if (wire::is_smp(packet.mad)) return to_sma(world, at, packet);
  if (packet.qkey != wire::gsi_qkey && packet.destination_qp == 1) {
    const BadKey key{packet.qkey, packet.slid, packet.dlid, packet.sl, packet.source_qp, packet.destination_qp, {}, {}};
    return refuse_q_key(world, world.managed(world.ports[at]), key);
  }
  if (wire::class_of(packet.mad) == MgmtClass::performance && !wire::is_response(packet.mad))
    return to_pma(world, at, packet);
  if (is_for_mellanox(world, at, packet)) return to_mellanox(world, at, packet);
  if (is_unknown_class(world, at, packet)) return answer(world, at, packet, MadStatus::bad_version);
  observe(world, at, packet);
}

}  // namespace softib::net
