#include "net/transit.h"

#include <map>

#include "net/losses.h"
#include "net/route.h"
#include "wire/loss.h"

namespace softib::net {

namespace {

u32 words_of(const Packet& packet) { return mad_words + (packet.global ? grh_words : 0); }

bool is_multicast(const Packet& packet) {
  return packet.dlid >= wire::first_multicast_lid && packet.dlid != wire::permissive_lid;
}

BadKey key_of(const Packet& packet) {
  return {packet.pkey, packet.slid, packet.dlid, packet.sl, packet.source_qp, packet.destination_qp, {}, {}};
}

// Each link of the tree once: what it loses is lost for all behind it.
void carry_multicast(World& world, PortRef from, const Packet& packet) {
  struct Crossed {
    Loss loss = Loss::none;
    u64 delay = 0;
  };
  std::map<PortRef, Crossed> links;
  for (const Path& path : walk_multicast(world, from, {packet.dlid, packet.sl, packet.pkey, false})) {
    Crossed way;
    for (const Hop& hop : path.hops) {
      const auto [link, fresh] = links.try_emplace(hop.out, way);
      if (fresh) link->second.loss = cross(world, world.index(hop.out), packet, link->second.delay);
      way = link->second;
      if (way.loss != Loss::none) break;
    }
    if (way.loss != Loss::none) continue;
    if (path.loss != Loss::none) {
      lose_packet(world, world.port(path.end), path.loss, path.leaving, key_of(packet), 1);
      continue;
    }
    Packet copy = packet;
    arrive(world, world.index(path.end), copy, way.delay);
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

Loss cross(World& world, u32 from, const Packet& packet, u64& delay) {
  const Port& out = world.ports[from];
  Port& in = world.ports[out.peer];
  count_hop(world, {out.ref, in.ref}, {1, words_of(packet), is_multicast(packet), packet.sl});
  const LinkQuality& quality = world.cables[out.cable].quality;
  delay += quality.delay_ns;
  if (const double chance = wire::chance_of_loss(quality.drop, quality.bit_error_rate, words_of(packet)); chance > 0) {
    std::uniform_real_distribution<double> dice(0, 1);
    if (dice(world.random) < chance) {
      in.tally[index_of(Cause::receive_error)] += 1;
      return Loss::dropped;
    }
  }
  return Loss::none;
}

u32 route_by_lid(World& world, u32 from, const Packet& packet, u64& delay) {
  const bool management = wire::is_smp(packet.mad);
  const Flow flow{packet.dlid, packet.sl, packet.pkey, management};
  const Trace way = trace(world, from, flow, [&](const Port& out, const Port& in) {
    if (!management) saw_data(world, world.ports[world.index(in.ref)]);
    return cross(world, world.index(out.ref), packet, delay);
  });
  if (way.loss == Loss::none) return way.through;
  lose_packet(world, world.ports[way.end], way.loss, way.leaving, key_of(packet), 1);
  return none;
}

void carry_one_link(World& world, u32 from, Packet& packet) {
  const Port& out = world.ports[from];
  u64 delay = 0;
  if (!carries_management(world, out) || cross(world, from, packet, delay) != Loss::none) return;
  arrive(world, out.peer, packet, delay);
}

void arrive(World& world, u32 at, Packet& packet, u64 delay) {
  if (delay == 0) return deliver(world, at, packet);
  world.flights.add(at, packet, delay);
}

void carry(World& world, PortRef from, Packet& packet) {
  if (!world.valid(from)) return;
  const u32 start = world.index(from);
  const Port& port = world.ports[start];
  if (!world.node(port).on || (from.port == 0) != (world.node(port).sw != nullptr)) return;
  if (wire::class_of(packet.mad) == wire::MgmtClass::subn_directed) return carry_directed(world, start, packet);
  if (packet.slid == 0) packet.slid = port.lid;
  if (packet.dlid == wire::permissive_lid) return carry_one_link(world, start, packet);
  if (is_multicast(packet)) return carry_multicast(world, from, packet);
  u64 delay = 0;
  if (const u32 end = route_by_lid(world, start, packet, delay); end != none) arrive(world, end, packet, delay);
}

}  // namespace softib::net
