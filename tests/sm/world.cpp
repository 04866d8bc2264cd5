#include "world.h"

#include <algorithm>
#include <functional>

#include "wire/smp_attributes.h"

namespace softib::sm::test {

World::World(const fabric::Fabric& fabric)
    : hosts_(static_cast<u32>(fabric.hosts.size())), net_(net::Network::create(fabric, *this)) {
  net_->on_time(now_);
}

World::~World() = default;

SubnetManager& World::manage_at(PortRef port, const Options& options) {
  Seat& seat = seats_[port];
  seat.world = this;
  seat.port = port;
  net_->set_capabilities(port, wire::port_cap::is_sm, true);
  seat.manager = SubnetManager::create(options, net_->port(port).guid, seat);
  return *seat.manager;
}

void World::dismiss(u32 host) {
  net_->set_capabilities(port_of_host(host), wire::port_cap::is_sm, false);
  seats_.erase(port_of_host(host));
}

void World::Seat::send(const wire::Packet& packet) {
  ++world->smps_sent;
  world->tables_sent += wire::is_smp(packet.mad) && wire::method_of(packet.mad) == wire::Method::set &&
                        wire::attribute_of(packet.mad) == static_cast<u16>(wire::SmpAttribute::linear_forwarding);
  world->net_->send(port, packet);
}

void World::Seat::log(std::string_view line) { world->log_.emplace_back(line); }

void World::received(PortRef at, const wire::Packet& packet) {
  const wire::Mad& mad = packet.mad;
  const bool tagged = wire::get(mad, wire::header::transaction) >> 32 == transaction_tag;
  const bool for_manager =
      wire::is_smp(mad) ? !wire::is_response(mad) || tagged
                        : wire::class_of(mad) == wire::MgmtClass::subn_adm && (!wire::is_response(mad) || tagged);
  if (const auto seat = seats_.find(at); for_manager && seat != seats_.end() && seat->second.manager)
    return seat->second.manager->received(packet, now_);
  if (const auto client = clients_.find(at); client != clients_.end() && client->second)
    client->second->received(packet);
}

void World::run_for(u64 ns) {
  constexpr u64 step = 20'000'000;
  const u64 end = now_ + ns;
  for (;;) {
    net_->on_time(now_);
    for (auto& [port, seat] : seats_) seat.manager->on_time(now_);
    if (now_ >= end) return;
    now_ = std::min(end, now_ + step);
  }
}

bool World::logged(std::string_view part) const {
  return std::any_of(log_.begin(), log_.end(), [part](const auto& line) { return line.find(part) != line.npos; });
}

// -- checks

void expect_all_active(World& world) {
  net::Network& net = world.net();
  for (u32 node = 0; node < net.node_count(); ++node)
    for (u32 port = 1; port <= net.port_count(node); ++port) {
      const PortRef ref{node, static_cast<u8>(port)};
      if (!net.other_end(ref) || net.port(ref).physical != net::PhysicalState::up) continue;
      EXPECT_EQ(net.port(ref).state, ipc::PortState::active) << net.description(node) << " port " << port;
    }
}

namespace {

// Each way between a host and the switches, there and back.
void expect_switches_reachable(World& world) {
  net::Network& net = world.net();
  for (u32 node = 0; node < net.node_count(); ++node) {
    if (net.kind(node) != net::NodeKind::sw) continue;
    const PortRef sw{node, 0};
    for (u32 host = 0; host < world.hosts(); ++host) {
      const PortRef from = world.port_of_host(host);
      EXPECT_EQ(net.walk(from, world.lid(sw), 0, 0xffff).end, sw) << host;
      EXPECT_EQ(net.walk(sw, world.lid(from), 0, 0xffff).end, from) << host;
    }
  }
}

}  // namespace

void expect_all_reachable(World& world) {
  expect_switches_reachable(world);
  for (u32 a = 0; a < world.hosts(); ++a) {
    const PortRef from = world.port_of_host(a);
    ASSERT_NE(world.lid(from), 0) << a;
    for (u32 b = 0; b < world.hosts(); ++b) {
      if (a == b) continue;
      const PortRef to = world.port_of_host(b);
      const auto path = world.net().walk(from, world.lid(to), 0, 0xffff);
      ASSERT_EQ(path.loss, net::Loss::none) << a << " to " << b;
      ASSERT_EQ(path.end, to);
    }
  }
}

std::map<u64, u16> lids_by_guid(World& world) {
  std::map<u64, u16> lids;
  net::Network& net = world.net();
  for (u32 node = 0; node < net.node_count(); ++node) {
    const bool sw = net.kind(node) == net::NodeKind::sw;
    for (u32 port = sw ? 0 : 1; port <= (sw ? 0 : net.port_count(node)); ++port) {
      const auto view = net.port({node, static_cast<u8>(port)});
      if (view.lid != 0) lids[view.guid] = view.lid;
    }
  }
  return lids;
}

namespace {

// Channels are links with a direction, by the port that sends.
using Waits = std::map<PortRef, std::set<PortRef>>;

bool goes_round(const Waits& waits) {
  std::map<PortRef, int> colour;
  std::function<bool(PortRef)> visit = [&](PortRef at) {
    if (colour[at] != 0) return colour[at] == 1;
    colour[at] = 1;
    if (const auto next = waits.find(at); next != waits.end())
      for (const PortRef to : next->second)
        if (visit(to)) return true;
    colour[at] = 2;
    return false;
  };
  return std::any_of(waits.begin(), waits.end(), [&](const auto& entry) { return visit(entry.first); });
}

}  // namespace

bool has_credit_loop(World& world) {
  Waits waits;
  for (u32 a = 0; a < world.hosts(); ++a)
    for (u32 b = 0; b < world.hosts(); ++b) {
      const auto path = world.net().walk(world.port_of_host(a), world.lid(world.port_of_host(b)), 0, 0xffff);
      for (size_t i = 1; i < path.hops.size(); ++i) waits[path.hops[i - 1].out].insert(path.hops[i].out);
    }
  return goes_round(waits);
}

// -- a client

SaAnswer Client::ask(const Ask& ask) {
  wire::Packet packet;
  packet.slid = world_.lid(port_);
  packet.dlid = world_.net().port(port_).sm_lid;
  packet.source_qp = packet.destination_qp = 1;
  packet.qkey = 0x8001'0000;
  wire::Mad& mad = packet.mad;
  wire::set(mad, wire::header::base_version, 1);
  wire::set(mad, wire::header::mgmt_class, static_cast<u8>(wire::MgmtClass::subn_adm));
  wire::set(mad, wire::header::class_version, 2);
  wire::set(mad, wire::header::method, static_cast<u8>(ask.method));
  wire::set(mad, wire::header::transaction, ++transaction_);
  wire::set(mad, wire::header::attribute, ask.attribute);
  wire::set(mad, wire::header::modifier, ask.modifier);
  wire::set(mad, wire::sa::component_mask, ask.mask);
  wire::set(mad, wire::sa::sm_key, ask.key);
  std::copy_n(ask.data.begin(), std::min<size_t>(ask.data.size(), 200), mad.begin() + wire::sa::data_at);
  answer_ = {};
  world_.send(port_, packet);
  for (u32 i = 0; !answer_.came && i < 2000; ++i) {
    world_.run_for(20'000'000);
    exchange_.on_time(world_.now());
  }
  return answer_;
}

void Client::received(const wire::Packet& packet) {
  const wire::Mad& mad = packet.mad;
  if (wire::method_of(mad) == wire::Method::report) {
    reports.push_back(packet);
    if (!answer_reports) return;
    wire::Packet answer = packet;
    std::swap(answer.slid, answer.dlid);
    std::swap(answer.source_qp, answer.destination_qp);
    wire::set(answer.mad, wire::header::method, static_cast<u8>(wire::Method::report_resp));
    return world_.send(port_, answer);
  }
  if (!wire::rmpp::is_active(mad)) return take(mad, {mad.begin() + wire::sa::data_at, mad.end()});
  if (lose_every != 0 && ++segments_ % lose_every == 0) return;
  exchange_.received({packet.slid, packet.source_qp, wire::get(mad, wire::header::transaction)}, mad, world_.now());
}

void Client::transmit(const wire::rmpp::Peer& peer, const wire::Mad& mad) {
  wire::Packet packet;
  packet.slid = world_.lid(port_);
  packet.dlid = peer.lid;
  packet.source_qp = 1;
  packet.destination_qp = peer.qp;
  packet.qkey = 0x8001'0000;
  packet.mad = mad;
  world_.send(port_, packet);
}

void Client::arrived(const wire::rmpp::Peer&, wire::rmpp::Message message) {
  take(message.head, std::move(message.data));
}

void Client::take(const wire::Mad& head, std::vector<u8> data) {
  if (wire::get(head, wire::header::transaction) != transaction_) return;
  answer_.came = true;
  answer_.status = static_cast<u16>(wire::get(head, wire::header::status));
  answer_.record_size = static_cast<u32>(wire::get(head, wire::sa::attribute_offset)) * 8;
  answer_.data = std::move(data);
}

}  // namespace softib::sm::test
