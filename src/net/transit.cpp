#include "net/transit.h"

#include "net/losses.h"
#include "net/route.h"
#include "wire/loss.h"

namespace softib::net {

namespace {

u32 words_of(const Packet& packet) { return mad_words + (packet.global ? grh_words : 0); }

void carry_multicast(World& world, PortRef from, const Packet& packet) {
  const Flow flow{packet.dlid, packet.sl, packet.pkey, false};
  for (const Path& path : walk_multicast(world, from, flow)) {
    for (const Hop& hop : path.hops) count_hop(world, hop, {1, words_of(packet), true, packet.sl});
    if (path.loss != Loss::none) continue;
    Packet copy = packet;
    deliver(world, world.index(path.end), copy);
  }
}

}  // namespace

void count_hop(World& world, const Hop& hop, const Network::Traffic& traffic) {
  Tally& out = world.port(hop.out).tally;
  Tally& in = world.port(hop.in).tally;
  const u32 sl = traffic.sl & 15U;
  out[index_of(Count::xmit_words)] += traffic.words;
  out[index_of(Count::xmit_packets)] += traffic.packets;
  out[index_of(traffic.multicast ? Count::multicast_xmit : Count::unicast_xmit)] += traffic.packets;
  out[index_of(Count::xmit_sl, sl)] += traffic.words;
  in[index_of(Count::receive_words)] += traffic.words;
  in[index_of(Count::receive_packets)] += traffic.packets;
  in[index_of(traffic.multicast ? Count::multicast_receive : Count::unicast_receive)] += traffic.packets;
  in[index_of(Count::receive_sl, sl)] += traffic.words;
}

Loss cross(World& world, u32 from, const Packet& packet) {
  const Port& out = world.ports[from];
  Port& in = world.ports[out.peer];
  count_hop(world, {out.ref, in.ref}, {1, words_of(packet), false, packet.sl});
  const LinkQuality& quality = world.cables[out.cable].quality;
  if (const double chance = wire::chance_of_loss(quality.drop, quality.bit_error_rate, words_of(packet)); chance > 0) {
    std::uniform_real_distribution<double> dice(0, 1);
    if (dice(world.random) < chance) {
      in.tally[index_of(Cause::receive_error)] += 1;
      return Loss::dropped;
    }
  }
  return Loss::none;
}

u32 route_by_lid(World& world, u32 from, const Packet& packet) {
  const bool management = wire::is_smp(packet.mad);
  const Flow flow{packet.dlid, packet.sl, packet.pkey, management};
  const Trace way = trace(world, from, flow, [&](const Port& out, const Port& in) {
    if (!management) saw_data(world, world.ports[world.index(in.ref)]);
    return cross(world, world.index(out.ref), packet);
  });
  if (way.loss == Loss::none) return way.through;
  const BadKey key{packet.pkey, packet.slid, packet.dlid, packet.sl, packet.source_qp, packet.destination_qp, {}, {}};
  lose_packet(world, world.ports[way.end], way.loss, way.leaving, key, 1);
  return none;
}

void carry_one_link(World& world, u32 from, Packet& packet) {
  const Port& out = world.ports[from];
  if (!carries_management(world, out) || cross(world, from, packet) != Loss::none) return;
  deliver(world, out.peer, packet);
}

void carry(World& world, PortRef from, Packet& packet) {
  if (!world.valid(from)) return;
  const u32 start = world.index(from);
  const Port& port = world.ports[start];
  if (!world.node(port).on || (from.port == 0) != (world.node(port).sw != nullptr)) return;
  if (wire::class_of(packet.mad) == wire::MgmtClass::subn_directed) return carry_directed(world, start, packet);
  if (packet.slid == 0) packet.slid = port.lid;
  if (packet.dlid == wire::permissive_lid) return carry_one_link(world, start, packet);
  if (packet.dlid >= wire::first_multicast_lid) return carry_multicast(world, from, packet);
  if (const u32 end = route_by_lid(world, start, packet); end != none) deliver(world, end, packet);
}

}  // namespace softib::net
