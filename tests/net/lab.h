// A small fabric for tests, and hands to work on it with: three switches in a triangle, a host at each.
//
//   host0 -1 [sw0] 2--2 [sw1] 1- host1      sw1:3 -- sw2:2, sw2:3 -- sw0:3, sw2:1 - host2
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "net/network.h"
#include "wire/notice.h"
#include "wire/perf_attributes.h"
#include "wire/smp_attributes.h"

namespace softib::net::test {

using wire::MadStatus;
using wire::Method;
using wire::MgmtClass;
using wire::PerfAttribute;
using wire::SmpAttribute;

using Data = std::array<u8, wire::smp::data_size>;

// As an Answer has it.
inline constexpr u16 bad_version = static_cast<u16>(MadStatus::bad_version);
inline constexpr u16 bad_attribute = static_cast<u16>(MadStatus::bad_attribute);
inline constexpr u16 bad_value = static_cast<u16>(MadStatus::bad_value);

inline constexpr u64 second = 1'000'000'000;

[[nodiscard]] inline fabric::Fabric triangle() {
  fabric::Fabric fabric;
  fabric.name = "lab";
  for (u32 i = 0; i < 3; ++i) {
    fabric::Host host;
    host.name = "host" + std::to_string(i);
    host.hcas.emplace_back().ports.emplace_back();
    fabric.hosts.push_back(host);
    fabric::Switch sw;
    sw.name = "sw" + std::to_string(i);
    sw.ports = 8;
    fabric.switches.push_back(sw);
  }
  const auto hca = [](u32 host) { return fabric::CableEnd{fabric::EndKind::hca, host, 0, 1}; };
  const auto sw = [](u32 node, u32 port) { return fabric::CableEnd{fabric::EndKind::sw, node, 0, port}; };
  fabric.cables = {{hca(0), sw(0, 1), {}, {}},   {hca(1), sw(1, 1), {}, {}},   {hca(2), sw(2, 1), {}, {}},
                   {sw(0, 2), sw(1, 2), {}, {}}, {sw(1, 3), sw(2, 2), {}, {}}, {sw(2, 3), sw(0, 3), {}, {}}};
  auto completed = fabric::complete(std::move(fabric));
  EXPECT_TRUE(completed) << completed.error().text;
  return *completed;
}

struct Answer {
  bool came = false;
  u16 status = 0;
  Data data{};
  wire::Packet packet;

  [[nodiscard]] u64 get(wire::Field field) const { return wire::get(data, field); }
  [[nodiscard]] bool ok() const { return came && status == 0; }
};

class Lab : public testing::Test, public Observer {
 public:
  explicit Lab(const fabric::Fabric& fabric = triangle()) : net_(Network::create(fabric, *this)) {}

  // Nodes: switches first.
  static constexpr u32 sw0 = 0, sw1 = 1, sw2 = 2, host0 = 3, host1 = 4, host2 = 5;
  static constexpr PortRef at_host(u32 host) { return {host0 + host, 1}; }

  void received(PortRef at, const Packet& packet) override { inbox_.push_back({at, packet}); }
  void port_changed(PortRef port) override { changed_.push_back(port); }
  void routes_changed(u32 node) override { rerouted_.push_back(node); }
  void reregister(PortRef port) override { reregistered_.push_back(port); }

 protected:
  using Path = std::vector<u8>;  // port numbers, without the 0 at the start

  struct Request {
    Method method = Method::get;
    SmpAttribute attribute = SmpAttribute::node_info;
    u32 modifier = 0;
    Data data{};
    u64 m_key = 0;
  };

  wire::Packet smp(MgmtClass mgmt_class, const Request& request) {
    wire::Packet packet;
    wire::set(packet.mad, wire::header::base_version, 1);
    wire::set(packet.mad, wire::header::mgmt_class, static_cast<u8>(mgmt_class));
    wire::set(packet.mad, wire::header::class_version, 1);
    wire::set(packet.mad, wire::header::method, static_cast<u8>(request.method));
    wire::set(packet.mad, wire::header::transaction, ++transaction_);
    wire::set(packet.mad, wire::header::attribute, static_cast<u16>(request.attribute));
    wire::set(packet.mad, wire::header::modifier, request.modifier);
    wire::set(packet.mad, wire::smp::m_key, request.m_key);
    std::copy(request.data.begin(), request.data.end(), packet.mad.begin() + wire::smp::data_at);
    return packet;
  }

  wire::Packet directed(const Path& path, const Request& request) {
    wire::Packet packet = smp(MgmtClass::subn_directed, request);
    packet.slid = packet.dlid = wire::permissive_lid;
    wire::set(packet.mad, wire::smp::dr_slid, wire::permissive_lid);
    wire::set(packet.mad, wire::smp::dr_dlid, wire::permissive_lid);
    wire::set(packet.mad, wire::header::hop_count, path.size());
    std::copy(path.begin(), path.end(), packet.mad.begin() + wire::smp::initial_path_at + 1);
    return packet;
  }

  // The answer that came back to the sender, if one did.
  Answer ask(PortRef from, const wire::Packet& packet) {
    const size_t before = inbox_.size();
    net_->send(from, packet);
    Answer answer;
    for (size_t i = before; i < inbox_.size(); ++i) {
      const auto& [at, got] = inbox_[i];
      if (at != from || !wire::is_response(got.mad)) continue;
      if (wire::get(got.mad, wire::header::transaction) != wire::get(packet.mad, wire::header::transaction)) continue;
      answer.came = true;
      answer.packet = got;
      answer.status = static_cast<u16>(wire::get(got.mad, wire::header::status)) & ~wire::directed_bit & 0xffff;
      std::copy_n(got.mad.begin() + wire::smp::data_at, answer.data.size(), answer.data.begin());
    }
    return answer;
  }

  Answer get(const Path& path, SmpAttribute attribute, u32 modifier = 0, u64 m_key = 0) {
    return ask(at_host(0), directed(path, {Method::get, attribute, modifier, {}, m_key}));
  }
  Answer set(const Path& path, SmpAttribute attribute, u32 modifier, const Data& data, u64 m_key = 0) {
    return ask(at_host(0), directed(path, {Method::set, attribute, modifier, data, m_key}));
  }

  struct Change {
    wire::Field field;
    u64 value;
  };
  // PortInfo as it stands, with what commands read as no change, and then the changes.
  Answer set_port(const Path& path, u32 port, const std::vector<Change>& changes, u64 m_key = 0) {
    Data data = get(path, SmpAttribute::port_info, port, m_key).data;
    for (const wire::Field field : {wire::port_info::port_state, wire::port_info::physical_state})
      wire::set(data, field, 0);
    for (const Change& change : changes) wire::set(data, change.field, change.value);
    return set(path, SmpAttribute::port_info, port, data, m_key);
  }
  Answer port_info(const Path& path, u32 port) { return get(path, SmpAttribute::port_info, port); }

  // Paths from host0.
  static Path to_switch(u32 index) { return index == 0 ? Path{1} : index == 1 ? Path{1, 2} : Path{1, 3}; }
  static Path to_host(u32 index) {
    if (index == 0) return {};
    Path path = to_switch(index);
    path.push_back(1);
    return path;
  }

  static constexpr u16 lid_of_host(u32 host) { return static_cast<u16>(10 + host); }
  static constexpr u16 lid_of_switch(u32 index) { return static_cast<u16>(20 + index); }

  // What a subnet manager on host0 would do: LIDs, tables, all ports ACTIVE.
  void bring_up() {
    for (u32 i = 0; i < 3; ++i) {
      give_lid(to_host(i), 1, lid_of_host(i));
      give_lid(to_switch(i), 0, lid_of_switch(i));
      write_tables(i);
    }
    for (const u64 state : {u64{3}, u64{4}})
      for (u32 i = 0; i < 3; ++i) {
        raise_port(to_host(i), 1, state);
        for (u32 port = 1; port <= 3; ++port) raise_port(to_switch(i), port, state);
      }
    changed_.clear();
    rerouted_.clear();
    inbox_.clear();
  }

  void raise_port(const Path& path, u32 port, u64 state) {
    if (port_info(path, port).get(wire::port_info::port_state) >= state) return;
    ASSERT_TRUE(set_port(path, port, {{wire::port_info::port_state, state}}).ok());
  }

  void give_lid(const Path& path, u32 port, u16 lid) {
    ASSERT_TRUE(set_port(path, port, {{wire::port_info::lid, lid}, {wire::port_info::sm_lid, lid_of_host(0)}}).ok());
  }

  void write_tables(u32 index) {
    Data info = get(to_switch(index), SmpAttribute::switch_info).data;
    wire::set(info, wire::switch_info::linear_top, 63);
    ASSERT_TRUE(set(to_switch(index), SmpAttribute::switch_info, 0, info).ok());
    Data table;
    table.fill(wire::linear_forwarding::no_port);
    for (u32 to = 0; to < 3; ++to) {
      table[lid_of_host(to)] = to == index ? 1 : towards(index, to);
      table[lid_of_switch(to)] = to == index ? 0 : towards(index, to);
    }
    ASSERT_TRUE(set(to_switch(index), SmpAttribute::linear_forwarding, 0, table).ok());
  }

  static u8 towards(u32 from, u32 to) {
    constexpr u8 ports[3][3] = {{0, 2, 3}, {2, 0, 3}, {3, 2, 0}};
    return ports[from][to];
  }

  wire::Packet by_lid(u16 dlid, const Request& request) {
    wire::Packet packet = smp(MgmtClass::subn_lid, request);
    packet.dlid = dlid;
    return packet;
  }

  // -- performance management

  using PerfData = std::array<u8, wire::perf::data_size>;
  struct PerfAnswer : Answer {
    PerfData counters{};
    [[nodiscard]] u64 count(wire::Field field) const { return wire::get(counters, field); }
  };

  wire::Packet perf_packet(u16 dlid, Method method, PerfAttribute attribute) {
    wire::Packet packet = smp(MgmtClass::performance, {method, static_cast<SmpAttribute>(attribute), 0, {}, 0});
    packet.dlid = dlid;
    packet.source_qp = packet.destination_qp = 1;
    return packet;
  }
  PerfAnswer perf(u16 dlid, Method method, PerfAttribute attribute, const PerfData& data) {
    wire::Packet packet = perf_packet(dlid, method, attribute);
    std::copy(data.begin(), data.end(), packet.mad.begin() + wire::perf::data_at);
    PerfAnswer answer{ask(at_host(0), packet), {}};
    std::copy_n(answer.packet.mad.begin() + wire::perf::data_at, data.size(), answer.counters.begin());
    return answer;
  }
  PerfAnswer counters(u16 dlid, u8 port, PerfAttribute attribute = PerfAttribute::port_counters) {
    PerfData data{};
    wire::set(data, wire::counters::port_select, port);
    return perf(dlid, Method::get, attribute, data);
  }

  // Traps that came to host0, by number.
  [[nodiscard]] std::vector<wire::Packet> traps(wire::TrapNumber number) const {
    std::vector<wire::Packet> found;
    for (const auto& [at, packet] : inbox_)
      if (at == at_host(0) && wire::method_of(packet.mad) == Method::trap &&
          notice(packet, wire::notice::trap_number) == static_cast<u16>(number))
        found.push_back(packet);
    return found;
  }
  static u64 notice(const wire::Packet& packet, wire::Field field) {
    return wire::get(std::span(packet.mad).subspan(wire::smp::data_at), field);
  }

  std::unique_ptr<Network> net_;
  std::vector<std::pair<PortRef, wire::Packet>> inbox_;
  std::vector<PortRef> changed_;
  std::vector<u32> rerouted_;
  std::vector<PortRef> reregistered_;
  u64 transaction_ = 0x1000;
};

}  // namespace softib::net::test
