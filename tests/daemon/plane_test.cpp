// What a fabric file says of P_Keys and LIDs reaches the ports by the built-in subnet manager.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "control_fixture.h"
#include "daemon/plane/manager.h"
#include "daemon/stock_managers.h"

namespace softib::daemon {
namespace {

fabric::Fabric fabric_of(const char* text) { return *fabric::parse(text, "test"); }

TEST(Partitions, TheDefaultOneNeedsNoText) { EXPECT_EQ(partitions_of(fabric_of("{hosts: 3}")), ""); }

TEST(Partitions, EachPortGetsWhatTheFileGivesIt) {
  FakeWatcher watcher;
  auto control = *Control::create(fabric_of("{hosts: [{hcas: [{pkeys: [0xffff, 0x8001, 0x0002, 0x8002]}]},"
                                            "{hcas: [{pkeys: [0x7fff, 0x0001]}]}, {}]}"),
                                  watcher);
  control->advance(1);
  auto keys = [&](u32 port) {
    const ipc::Port& record = control->segment().ports[port];
    EXPECT_EQ(record.state, ipc::PortState::active);
    std::set<u16> found;
    for (u32 i = 0; i < record.pkey_count; ++i)
      if (record.pkeys[i]) found.insert(record.pkeys[i]);
    return found;
  };
  EXPECT_EQ(keys(1), (std::set<u16>{0xffff, 0x8001, 0x0002, 0x8002}));
  EXPECT_EQ(keys(2), (std::set<u16>{0x7fff, 0x0001}));
  EXPECT_EQ(keys(3), (std::set<u16>{0xffff}));
}

TEST(Partitions, AWholeTextGoesToTheManagerAsItIs) {
  FakeWatcher watcher;
  auto control = *Control::create(
      fabric_of("{hosts: 3, partitions: 'Default=0x7fff: ALL=full; lab=0x11: ALL_CAS=limited, ALL_SWITCHES=full;'}"),
      watcher);
  control->advance(1);
  for (u32 port = 1; port <= 3; ++port) {
    const ipc::Port& record = control->segment().ports[port];
    ASSERT_GE(record.pkey_count, 2);
    EXPECT_EQ(record.pkeys[0], 0xffff);
    EXPECT_EQ(record.pkeys[1], 0x0011);
  }
}

TEST(StockManagers, OneForEachSubnetOrWhereTheFileWantsThem) {
  using fabric::CableEnd;
  const auto two_rails = fabric_of(
      "{hosts: [{name: sharp, kind: aggregation}, {name: a, hcas: 2}, {name: b, hcas: 2}, {name: idle}], sm: opensm,"
      " switches: 2, cables: [[sharp/mlx5_0, sw0/9], [a/mlx5_0, sw0/1], [b/mlx5_0, sw0/2], [a/mlx5_1, sw1/1],"
      " [b/mlx5_1, sw1/2]]}");
  EXPECT_EQ(places_for_opensm(two_rails),
            (std::vector<CableEnd>{{fabric::EndKind::hca, 1, 0, 1}, {fabric::EndKind::hca, 1, 1, 1}}));
  const auto said = fabric_of("{hosts: 3, sm: {kind: opensm, ports: [host2/mlx5_0, host1/mlx5_0]}}");
  EXPECT_EQ(places_for_opensm(said), said.manager.ports);
}

TEST(Managers, WhatTheFileSaysOfThem) {
  const sm::Options options =
      manager_options(fabric_of("{hosts: 2, sm: {routing: ftree, priority: 9, sweep_interval: 3}}"));
  EXPECT_EQ(options.routing, sm::Routing::ftree);
  EXPECT_EQ(options.priority, 9);
  EXPECT_EQ(options.sweep_interval_ns, 3'000'000'000U);
  EXPECT_EQ(manager_options(fabric_of("{hosts: 2}")).routing, sm::Routing::minhop);
}

TEST(PresetLids, ThoseOfTheFileStay) {
  FakeWatcher watcher;
  auto control = *Control::create(
      fabric_of("{hosts: [{hcas: [{ports: [{lid: 0x20}]}]}, {}], switches: [{name: sw, lid: 0x7000}]}"), watcher);
  control->advance(1);
  EXPECT_EQ(control->segment().ports[1].lid, 0x20);
  EXPECT_EQ(control->segment().ports[1].sm_lid, 0x7000);
  EXPECT_EQ(control->segment().ports[2].lid, control->fabric().hosts[1].hcas[0].ports[0].lid);
  EXPECT_EQ(control->segment().ports[2].state, ipc::PortState::active);
}

// What the data path is told of ways.
class Ways : public ::testing::Test {
 public:
  void begin(const char* text) {
    control = *Control::create(fabric_of(text), watcher);
    control->advance(1);
    plane = control->plane();
  }
  // The subnet manager brings up what has changed.
  void sweep() {
    constexpr u64 second = 1'000'000'000;
    for (u64 tenth = 1; tenth < 30; ++tenth) control->advance(tenth * second / 10);
  }
  Way find() {
    const ipc::Segment& segment = control->segment();
    return plane->find(owner, 1, segment.ports[2].lid, 0, 0xffff);
  }
  ipc::Link& link(u32 index) { return control->segment().links[index]; }
  net::PortRef first_port() { return {plane->network().hca_node(0, 0), 1}; }

  static constexpr RouteOwner owner{ipc::ObjectKind::qp, 0x20};
  FakeWatcher watcher;
  std::unique_ptr<Control> control;
  Plane* plane = nullptr;
};

TEST_F(Ways, CleanLinksAreNotListed) {
  begin("{hosts: 2}");
  EXPECT_EQ(find().ports, std::vector<u32>{2});
  EXPECT_TRUE(find().there.empty() && find().back.empty());
}

TEST_F(Ways, PacedLinksHaveTheirRates) {
  begin("{hosts: 2, pace: true}");
  const Way way = find();
  ASSERT_EQ(way.there.size(), 2U);
  ASSERT_EQ(way.back.size(), 2U);
  for (const u32 index : way.there) EXPECT_EQ(link(index).mbps, 200'000U) << "4X HDR";
  const u32 epoch = control->segment().header.route_epoch;
  plane->network().limit(first_port(), fabric::Speed::sdr, {});
  sweep();
  EXPECT_NE(control->segment().header.route_epoch, epoch);
  const Way slow = find();
  ASSERT_EQ(slow.there.size(), 2U);
  EXPECT_EQ(link(slow.there[0]).mbps, 8'000U) << "4X SDR";
  EXPECT_EQ(link(slow.there[1]).mbps, 200'000U);
}

TEST_F(Ways, FaultyLinksAreListedAndWhatTheyLoseIsCounted) {
  begin("{hosts: 2}");
  const u32 epoch = control->segment().header.route_epoch;
  plane->network().set_quality(first_port(), {.drop = 0.5});
  control->settle();
  EXPECT_NE(control->segment().header.route_epoch, epoch) << "ways are to be looked up again";
  const Way way = find();
  ASSERT_EQ(way.there.size(), 1U);
  ASSERT_EQ(way.back.size(), 1U);
  EXPECT_EQ(link(way.there[0]).drop, 0.5);
  link(way.back[0]).lost_packets = 7;  // on their way into the first port
  EXPECT_EQ(plane->counters(1).of[static_cast<u32>(net::Cause::receive_error)], 7U);
  EXPECT_EQ(plane->counters(1).of[static_cast<u32>(net::Cause::receive_error)], 7U) << "once";
  plane->network().set_quality(first_port(), {});
  control->settle();
  EXPECT_TRUE(find().there.empty());
}

TEST_F(Ways, LostPacketsCrossLinksUpToWhereTheyAreLost) {
  begin("{hosts: 2}");
  plane->network().cut({plane->network().hca_node(1, 0), 1});
  control->settle();
  EXPECT_TRUE(find().ports.empty());
  ipc::Traffic& traffic = control->segment().qps[owner.id].traffic;
  const u64 before = plane->counters(1).xmit_packets;
  traffic.out_packets = 3;
  traffic.out_words = 300;
  EXPECT_EQ(plane->counters(1).xmit_packets, before + 3);
  const net::PortRef leaving{plane->network().switch_node(0), 2};
  EXPECT_EQ(plane->network().counters(leaving).of[static_cast<u32>(net::Cause::xmit_discard)], 3U);
}

TEST_F(Ways, AnswersWithoutAWayAreCountedWhereTheyGetLost) {
  begin("{hosts: 2}");
  constexpr u32 peer = 0x21;
  ipc::Segment& segment = control->segment();
  segment.qps[owner.id].dest_qpn = peer;
  segment.qps[peer].dest_qpn = owner.id;
  EXPECT_FALSE(find().ports.empty());
  // 0xbff is nobody's: the switch has no entry for it.
  EXPECT_TRUE(plane->find({ipc::ObjectKind::qp, peer}, 2, 0xbff, 0, 0xffff).ports.empty());
  const u64 sent = plane->counters(2).xmit_packets;
  segment.qps[owner.id].traffic.astray_packets = 3;
  segment.qps[owner.id].traffic.astray_words = 21;
  EXPECT_EQ(plane->counters(2).xmit_packets, sent + 3) << "as far as the switch they come";
  const net::PortRef at{plane->network().switch_node(0), 2};
  const auto relay_errors = [&] {
    return plane->network().counters(at).of[static_cast<u32>(net::Cause::switch_relay)];
  };
  EXPECT_EQ(relay_errors(), 3U);
  segment.qps[owner.id].traffic.astray_packets = 5;
  EXPECT_FALSE(plane->find({ipc::ObjectKind::qp, peer}, 2, segment.ports[1].lid, 0, 0xffff).ports.empty());
  EXPECT_EQ(relay_errors(), 5U) << "what went the old way is counted there";
  segment.qps[owner.id].traffic.astray_packets = 6;
  EXPECT_EQ(plane->counters(2).xmit_packets, sent + 6);
  EXPECT_EQ(relay_errors(), 5U);
}

TEST_F(Ways, MulticastWithoutMembersReachesTheSendersPortOnly) {
  begin("{hosts: 3}");
  EXPECT_EQ(plane->find_multicast(owner, 1, 0xc001, 0).ports, std::vector<u32>{1});
}

TEST_F(Ways, RefusedKeysStandInPortInfo) {
  begin("{hosts: 2}");
  control->segment().ports[2].pkey_violations = 3;
  control->segment().ports[2].qkey_violations = 2;
  plane->key_refused(ipc::KeyViolation::p_key, 1, 2, {.key = 0x8001});
  plane->key_refused(ipc::KeyViolation::p_key, 1, 77, {});  // no such port
  control->advance(2);
  EXPECT_EQ(plane->network().violations({plane->network().hca_node(1, 0), 1}), (std::pair<u16, u16>{3, 2}));
}

TEST(PresetLids, APortHasAllOfItsOwn) {
  FakeWatcher watcher;
  auto control = *Control::create(fabric_of("{hosts: [{hcas: [{ports: [{lid: 0x40, lmc: 2}]}]}, {hcas: [{ports: [{lid: "
                                            "0x44}]}]}, {}], switches: [{name: sw, enhanced_port0: true, lmc: 1}]}"),
                                  watcher);
  control->advance(1);
  const ipc::Port* ports = control->segment().ports;
  EXPECT_EQ(ports[1].lid, 0x40);
  EXPECT_EQ(ports[1].lmc, 2);
  EXPECT_EQ(ports[2].lmc, 0) << "the others have theirs";
  const net::Network& network = control->plane()->network();
  EXPECT_EQ(network.port({network.switch_node(0), 0}).lmc, 1);
  for (u16 lid = 0x40; lid < 0x44; ++lid) {
    const net::Path path = network.walk({network.hca_node(2, 0), 1}, lid, 0, 0xffff);
    EXPECT_EQ(path.loss, net::Loss::none);
    EXPECT_EQ(path.end, (net::PortRef{network.hca_node(0, 0), 1})) << lid;
  }
}

}  // namespace
}  // namespace softib::daemon
