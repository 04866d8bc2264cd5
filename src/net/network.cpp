#include "net/network.h"

#include <algorithm>

#include "net/faults.h"
#include "net/losses.h"
#include "net/pma/pma.h"
#include "net/route.h"
#include "net/sma/sma.h"
#include "net/transit.h"

namespace softib::net {

namespace {

// Hands each call to the part that knows.
class Emulation final : public Network {
 public:
  Emulation(const fabric::Fabric& fabric, Observer& observer) {
    build(world_, fabric);
    world_.observer.attach(observer);
  }

  u32 node_count() const override { return static_cast<u32>(world_.nodes.size()); }
  NodeKind kind(u32 node) const override { return world_.nodes[node].kind; }
  u8 port_count(u32 node) const override { return world_.nodes[node].ports; }
  u64 node_guid(u32 node) const override { return world_.nodes[node].guid; }
  const std::string& description(u32 node) const override { return world_.nodes[node].description; }
  u32 switch_node(u32 switch_index) const override { return switch_index; }
  u32 hca_node(u32 host, u32 hca) const override { return world_.first_hca[host] + hca; }
  PortView port(PortRef ref) const override;
  std::optional<PortRef> other_end(PortRef ref) const override;

  void set_description(u32 node, std::string_view text) override;
  void set_capabilities(PortRef ref, u32 bits, bool on) override;
  void set_enhanced_port_0(u32 node, bool enhanced) override;
  void preset_lid(PortRef ref, u16 lid, u8 lmc) override {
    world_.port(ref).lid = lid;
    world_.port(ref).lmc = lmc;
  }

  void send(PortRef from, const Packet& packet) override { world_.post.send(from, packet); }
  u64 on_time(u64 now) override;

  Path walk(PortRef from, u16 dlid, u8 sl, u16 pkey) const override {
    return net::walk(world_, from, {dlid, sl, pkey, false});
  }
  std::vector<Path> walk_multicast(PortRef from, u16 mlid, u8 sl, u16 pkey) const override {
    return net::walk_multicast(world_, from, {mlid, sl, pkey, false});
  }

  void count(std::span<const Hop> hops, const Traffic& traffic) override {
    for (const Hop& hop : hops) count_hop(world_, hop, traffic);
  }
  void count(PortRef port, Cause cause, u64 times) override { count_cause(world_, world_.port(port), cause, times); }
  void count_loss(const Path& path, const BadKey& packet, u64 times) override {
    lose_packet(world_, world_.port(path.end), path.loss, path.leaving, packet, times);
  }
  void add_violations(PortRef at, u64 p_keys, u64 q_keys) override {
    count_violations(world_.port(at), p_keys, q_keys);
  }
  std::pair<u16, u16> violations(PortRef at) const override {
    const Port& port = world_.port(at);
    return {port.p_key_violations, port.q_key_violations};
  }
  void tell_bad_key(PortRef at, wire::TrapNumber trap, const BadKey& packet) override {
    world_.traps.bad_key(world_.port(at), trap, packet);
  }
  Counters counters(PortRef port) const override;
  wire::MadStatus ask_pma(PortRef port, Packet& request) override { return pma(world_, world_.port(port), request); }

  void cut(PortRef port) override { set_cut(world_, world_.port(port), true); }
  void mend(PortRef port) override { set_cut(world_, world_.port(port), false); }
  void limit(PortRef port, std::optional<fabric::Speed> speed, std::optional<fabric::Width> width) override {
    limit_link(world_, world_.port(port), speed, width);
  }
  void set_quality(PortRef port, const LinkQuality& quality) override {
    net::set_quality(world_, world_.port(port), quality);
  }
  LinkQuality quality(PortRef port) const override {
    const u32 cable = world_.port(port).cable;
    return cable == none ? LinkQuality{} : world_.cables[cable].quality;
  }
  void power(u32 node, bool on) override { set_power(world_, node, on); }
  bool enable_ports(PortRef port) override { return net::enable_ports(world_, world_.port(port)); }
  void swap_cables(PortRef a, PortRef b) override { net::swap_cables(world_, world_.port(a), world_.port(b)); }
  void stick_counters(PortRef port, bool stuck) override { stick(world_.port(port), stuck); }
  LinkFaults faults(PortRef port) const override { return faults_of(world_, world_.port(port)); }
  bool is_on(u32 node) const override { return world_.nodes[node].on; }
  bool is_stuck(PortRef port) const override { return stuck(world_.port(port)); }

 private:
  World world_;
};

PortView Emulation::port(PortRef ref) const {
  const Port& port = world_.port(ref);
  const Port& managed = world_.managed(port);
  PortView view;
  view.state = port.state;
  view.physical = port.physical;
  view.lid = managed.lid;
  view.lmc = managed.lmc;
  view.sm_lid = managed.sm_lid;
  view.sm_sl = managed.sm_sl;
  view.capabilities = managed.capabilities;
  view.active_mtu = static_cast<fabric::Mtu>(port.neighbor_mtu);
  view.speed = port.speed;
  view.width = port.width;
  view.guid = managed.guid;
  view.gid_prefix = managed.gid_prefix;
  view.pkeys = port.pkeys;
  view.guids = managed.guids;
  return view;
}

std::optional<PortRef> Emulation::other_end(PortRef ref) const {
  const u32 peer = world_.port(ref).peer;
  if (peer == none) return std::nullopt;
  return world_.ports[peer].ref;
}

void Emulation::set_description(u32 node, std::string_view text) {
  const Post::Hold hold(world_.post);
  world_.nodes[node].description = text.substr(0, wire::smp::data_size);
  const Node& about = world_.nodes[node];
  for (u32 number = about.sw ? 0 : 1; number <= (about.sw ? 0U : about.ports); ++number)
    world_.traps.local_change(world_.ports[about.first + number], wire::local_change::node_description);
}

void Emulation::set_capabilities(PortRef ref, u32 bits, bool on) {
  Port& port = world_.managed(world_.port(ref));
  const u32 before = port.capabilities;
  port.capabilities = on ? before | bits : before & ~bits;
  if (port.capabilities == before) return;
  const Post::Hold hold(world_.post);
  world_.observer.port_changed(port.ref);
  world_.traps.local_change(port, 0);
}

void Emulation::set_enhanced_port_0(u32 node, bool enhanced) {
  Node& about = world_.nodes[node];
  if (!about.sw || about.sw->enhanced == enhanced) return;
  about.sw->enhanced = enhanced;
  world_.ports[about.first].state = enhanced ? ipc::PortState::init : ipc::PortState::active;
}

u64 Emulation::on_time(u64 now) {
  if (world_.now == 0) world_.began = now;
  world_.now = now;
  world_.flights.deliver_due(world_);
  const u64 errors = count_errors(world_);
  const u64 leases = end_leases(world_);
  const u64 samples = sample(world_);
  const u64 traps = world_.traps.on_time(now);
  return std::min({errors, leases, samples, traps, world_.flights.stamp(now)});  // what those sent flies too
}

Network::Counters Emulation::counters(PortRef ref) const {
  const Tally& tally = world_.port(ref).tally;
  const auto at = [&](Count what) { return tally[index_of(what)]; };
  Counters out{at(Count::xmit_words),      at(Count::receive_words),     at(Count::xmit_packets),
               at(Count::receive_packets), at(Count::unicast_xmit),      at(Count::unicast_receive),
               at(Count::multicast_xmit),  at(Count::multicast_receive), {}};
  std::copy_n(tally.begin() + index_of(Count::causes), cause_count, out.of);
  return out;
}

}  // namespace

std::vector<Hop> reversed(const std::vector<Hop>& hops) {
  std::vector<Hop> back;
  for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) back.push_back({hop->in, hop->out});
  return back;
}

std::unique_ptr<Network> Network::create(const fabric::Fabric& fabric, Observer& observer) {
  return std::make_unique<Emulation>(fabric, observer);
}

}  // namespace softib::net
