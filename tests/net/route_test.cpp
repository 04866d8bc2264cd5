// Forwarding by tables: unicast and multicast, P_Keys, SLs, and where packets get lost.
#include "lab.h"

namespace softib::net::test {

using ipc::PortState;

constexpr u16 any_pkey = 0xffff;

class RouteTest : public Lab {
 protected:
  void SetUp() override { bring_up(); }

  [[nodiscard]] Network::Counters counters_of(PortRef port) const { return net_->counters(port); }
  [[nodiscard]] u64 count_of(PortRef port, Cause cause) const {
    return net_->counters(port).of[static_cast<u32>(cause)];
  }
  [[nodiscard]] net::Path walk(u16 dlid, u16 pkey = any_pkey, u8 sl = 0) const {
    return net_->walk(at_host(0), dlid, sl, pkey);
  }

  void route(u32 index, u16 lid, u8 port) {
    Data table = get(to_switch(index), SmpAttribute::linear_forwarding).data;
    table[lid] = port;
    ASSERT_TRUE(set(to_switch(index), SmpAttribute::linear_forwarding, 0, table).ok());
  }

  void set_pkeys(const Path& path, u32 port, u16 first, u16 second_key) {
    Data data{};
    wire::set(data, wire::pkey_table::key(0), first);
    wire::set(data, wire::pkey_table::key(1), second_key);
    ASSERT_TRUE(set(path, SmpAttribute::pkey_table, port << 16, data).ok());
  }

  void set_masks(u32 index, u16 mlid, u16 mask) {
    Data data{};
    wire::set(data, wire::multicast_forwarding::mask(mlid - wire::first_multicast_lid), mask);
    ASSERT_TRUE(set(to_switch(index), SmpAttribute::multicast_forwarding, 0, data).ok());
  }
};

TEST_F(RouteTest, WalkFollowsTheTables) {
  const net::Path path = walk(lid_of_host(1));
  EXPECT_EQ(path.loss, Loss::none);
  EXPECT_EQ(path.end, at_host(1));
  ASSERT_EQ(path.hops.size(), 3U);
  EXPECT_EQ(path.hops[0].out, at_host(0));
  EXPECT_EQ(path.hops[0].in, (PortRef{sw0, 1}));
  EXPECT_EQ(path.hops[1].out, (PortRef{sw0, 2}));
  EXPECT_EQ(path.hops[1].in, (PortRef{sw1, 2}));
  EXPECT_EQ(path.hops[2].in, at_host(1));

  route(0, lid_of_host(1), 3);
  const net::Path round = walk(lid_of_host(1));
  EXPECT_EQ(round.loss, Loss::none);
  EXPECT_EQ(round.hops.size(), 4U);
}

TEST_F(RouteTest, ToOneselfIsNoWayAtAll) {
  const net::Path path = walk(lid_of_host(0));
  EXPECT_EQ(path.loss, Loss::none);
  EXPECT_EQ(path.end, at_host(0));
  EXPECT_TRUE(path.hops.empty());
}

TEST_F(RouteTest, SwitchesAreReachedAtPortZero) {
  const net::Path path = walk(lid_of_switch(2));
  EXPECT_EQ(path.loss, Loss::none);
  EXPECT_EQ(path.end, (PortRef{sw2, 0}));
}

TEST_F(RouteTest, NoEntryNoRoute) {
  route(1, lid_of_host(1), wire::linear_forwarding::no_port);
  net::Path path = walk(lid_of_host(1));
  EXPECT_EQ(path.loss, Loss::no_route);
  EXPECT_EQ(path.end, (PortRef{sw1, 2}));
  EXPECT_EQ(walk(63).loss, Loss::no_route);
  EXPECT_EQ(walk(64).loss, Loss::no_route) << "above LinearFDBTop";
  EXPECT_EQ(walk(0).loss, Loss::no_route);
  net_->count_loss(path, {}, 3);
  EXPECT_EQ(count_of({sw1, 2}, Cause::switch_relay), 3U);
}

TEST_F(RouteTest, WrongEntriesLeadToTheWrongPort) {
  route(0, lid_of_host(1), 0);
  net::Path path = walk(lid_of_host(1));
  EXPECT_EQ(path.loss, Loss::no_route) << "port 0 has another LID";
  EXPECT_EQ(path.end, (PortRef{sw0, 0}));
  route(0, lid_of_host(1), 1);
  EXPECT_EQ(walk(lid_of_host(1)).loss, Loss::loop) << "back to where it came from";
  route(0, lid_of_host(1), 7);
  path = walk(lid_of_host(1));
  EXPECT_EQ(path.loss, Loss::link_down);
  EXPECT_EQ(path.end, (PortRef{sw0, 7}));
  EXPECT_TRUE(path.leaving);
  net_->count_loss(path, {}, 2);
  EXPECT_EQ(count_of({sw0, 7}, Cause::xmit_discard), 2U);
}

TEST_F(RouteTest, CirclesEnd) {
  route(0, 50, 2);
  route(1, 50, 3);
  route(2, 50, 3);
  const net::Path path = walk(50);
  EXPECT_EQ(path.loss, Loss::loop);
  EXPECT_LE(path.hops.size(), 64U);
  EXPECT_FALSE(ask(at_host(0), by_lid(50, {})).came);
}

TEST_F(RouteTest, PortsThatArentActiveCarryNoData) {
  ASSERT_TRUE(set_port({1}, 2, {{wire::port_info::port_state, 1}}).ok());
  EXPECT_EQ(walk(lid_of_host(1)).loss, Loss::link_down);
  EXPECT_TRUE(ask(at_host(0), by_lid(lid_of_host(1), {})).ok()) << "SMPs get through";
  EXPECT_FALSE(counters(lid_of_host(1), 1).came) << "GMPs don't";
}

TEST_F(RouteTest, AnArmedPortBecomesActiveByData) {
  ASSERT_TRUE(set_port({1}, 2, {{wire::port_info::port_state, 1}}).ok());
  for (const auto& [path, state] : {std::pair{Path{1}, 3U}, {Path{1, 2}, 3U}, {Path{1}, 4U}})
    ASSERT_TRUE(set_port(path, 2, {{wire::port_info::port_state, state}}).ok());
  EXPECT_EQ(net_->port({sw1, 2}).state, PortState::armed);
  (void)counters(lid_of_host(1), 1);
  EXPECT_EQ(net_->port({sw1, 2}).state, PortState::active);
}

TEST_F(RouteTest, PkeysAtTheEnds) {
  EXPECT_EQ(walk(lid_of_host(1), 0x8001).loss, Loss::bad_pkey) << "not in the sender's table";
  set_pkeys({}, 0, 0xffff, 0x8001);
  net::Path path = walk(lid_of_host(1), 0x8001);
  EXPECT_EQ(path.loss, Loss::bad_pkey);
  EXPECT_EQ(path.end, at_host(1));
  net_->count_loss(path, {0x8001, lid_of_host(0), lid_of_host(1), 0, 0, 0, {}, {}}, 1);
  EXPECT_EQ(port_info(to_host(1), 0).get(wire::port_info::p_key_violations), 1U);
  set_pkeys(to_host(1), 0, 0xffff, 0x0001);
  EXPECT_EQ(walk(lid_of_host(1), 0x8001).loss, Loss::none) << "one of both is a full member";
  set_pkeys({}, 0, 0xffff, 0x0001);
  EXPECT_EQ(walk(lid_of_host(1), 0x0001).loss, Loss::bad_pkey) << "two limited members";
}

TEST_F(RouteTest, SwitchesEnforcePkeysWhenTold) {
  set_pkeys({}, 0, 0xffff, 0x8001);
  set_pkeys(to_host(1), 0, 0xffff, 0x8001);
  EXPECT_EQ(walk(lid_of_host(1), 0x8001).loss, Loss::none);
  ASSERT_TRUE(set_port({1}, 1, {{wire::port_info::enforce_inbound, 1}}).ok());
  net::Path path = walk(lid_of_host(1), 0x8001);
  EXPECT_EQ(path.loss, Loss::bad_pkey);
  EXPECT_EQ(path.end, (PortRef{sw0, 1}));
  EXPECT_FALSE(path.leaving);
  net_->count_loss(path, {}, 1);
  EXPECT_EQ(count_of({sw0, 1}, Cause::receive_constraint), 1U);
  set_pkeys({1}, 1, 0xffff, 0x8001);
  EXPECT_EQ(walk(lid_of_host(1), 0x8001).loss, Loss::none);
  ASSERT_TRUE(set_port({1}, 2, {{wire::port_info::enforce_outbound, 1}}).ok());
  path = walk(lid_of_host(1), 0x8001);
  EXPECT_EQ(path.loss, Loss::bad_pkey);
  EXPECT_EQ(path.end, (PortRef{sw0, 2}));
  EXPECT_TRUE(path.leaving);
  net_->count_loss(path, {}, 1);
  EXPECT_EQ(count_of({sw0, 2}, Cause::xmit_constraint), 1U);
}

// opensm gives a switch's port the table of the port behind it.
TEST_F(RouteTest, LimitedMembersGetPastTheirSwitch) {
  set_pkeys({}, 0, 0xffff, 0x0001);
  set_pkeys({1}, 1, 0xffff, 0x0001);
  set_pkeys(to_host(1), 0, 0xffff, 0x8001);
  ASSERT_TRUE(set_port({1}, 1, {{wire::port_info::enforce_inbound, 1}, {wire::port_info::enforce_outbound, 1}}).ok());
  EXPECT_EQ(walk(lid_of_host(1), 0x0001).loss, Loss::none) << "to a full one";
  EXPECT_EQ(net_->walk(at_host(1), lid_of_host(0), 0, 0x8001).loss, Loss::none) << "and back";
  EXPECT_EQ(walk(lid_of_host(1), 0x8001).end, (PortRef{sw0, 1})) << "nobody may claim to be one";
  EXPECT_EQ(net_->walk(at_host(1), lid_of_host(0), 0, 0x0001).loss, Loss::bad_pkey) << "a limited to a limited one";
}

// An answer has the key of who answers, else limited members would hear none.
TEST_F(RouteTest, AgentsAnswerWithTheirOwnKey) {
  set_pkeys({}, 0, 0x7fff, 0);
  set_pkeys(to_host(1), 0, 0x8001, 0xffff);
  wire::Packet question = perf_packet(lid_of_host(1), Method::get, PerfAttribute::class_port_info);
  question.pkey = 0x7fff;
  const Answer answer = ask(at_host(0), question);
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer.packet.pkey, 0xffff);

  set_pkeys({}, 0, 0xffff, 0);
  set_pkeys(to_host(1), 0, 0x7fff, 0);
  question.pkey = 0xffff;
  EXPECT_EQ(ask(at_host(0), question).packet.pkey, 0x7fff);
  set_pkeys({}, 0, 0x7fff, 0);
  question.pkey = 0x7fff;
  EXPECT_FALSE(ask(at_host(0), question).came) << "two limited members";
}

TEST_F(RouteTest, AnSlOnVl15IsDropped) {
  Data data{};
  wire::set(data, wire::sl_to_vl::vl(3), 15);
  ASSERT_TRUE(set({1}, SmpAttribute::sl_to_vl, 1 << 8 | 2, data).ok());
  EXPECT_EQ(walk(lid_of_host(1), any_pkey, 3).loss, Loss::dropped);
  EXPECT_EQ(walk(lid_of_host(1), any_pkey, 2).loss, Loss::none);
  EXPECT_EQ(walk(lid_of_host(2), any_pkey, 3).loss, Loss::none) << "by another port";
}

TEST_F(RouteTest, LmcMakesRangesOfLids) {
  ASSERT_TRUE(set_port(to_host(1), 0, {{wire::port_info::lid, 40}, {wire::port_info::lmc, 1}}).ok());
  for (const u16 lid : {40, 41, 42}) {
    route(0, lid, 2);
    route(1, lid, 1);
  }
  EXPECT_EQ(walk(40).loss, Loss::none);
  EXPECT_EQ(walk(41).loss, Loss::none);
  EXPECT_EQ(walk(42).loss, Loss::no_route);
}

TEST_F(RouteTest, SmpsByLid) {
  const Answer answer = ask(at_host(0), by_lid(lid_of_switch(2), {}));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(sw2));
  EXPECT_EQ(answer.get(wire::node_info::local_port), 3U) << "through which it came";
  EXPECT_EQ(answer.packet.slid, lid_of_switch(2));
  EXPECT_EQ(answer.packet.dlid, lid_of_host(0));
}

TEST_F(RouteTest, ThePermissiveLidReachesTheOtherEndOfTheLink) {
  const Answer answer = ask(at_host(0), by_lid(wire::permissive_lid, {}));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(sw0));
}

TEST_F(RouteTest, OtherClassesAreForTheObserver) {
  wire::Packet packet = smp(MgmtClass::subn_adm, {});
  packet.dlid = lid_of_host(1);
  packet.destination_qp = 1;
  net_->send(at_host(0), packet);
  ASSERT_EQ(inbox_.size(), 1U);
  EXPECT_EQ(inbox_[0].first, at_host(1));
  EXPECT_EQ(inbox_[0].second.slid, lid_of_host(0));
}

TEST_F(RouteTest, QueuePairOneWantsItsKey) {
  wire::Packet packet = smp(MgmtClass::subn_adm, {});
  packet.dlid = lid_of_host(1);
  packet.destination_qp = 1;
  packet.qkey = 7;
  net_->send(at_host(0), packet);
  EXPECT_EQ(port_info(to_host(1), 0).get(wire::port_info::q_key_violations), 1U);
  EXPECT_EQ(traps(wire::TrapNumber::bad_q_key).size(), 1U);
}

TEST_F(RouteTest, MulticastSpreadsByMasks) {
  constexpr u16 mlid = 0xc003;
  set_masks(0, mlid, 0b0110);  // host0 and sw1
  set_masks(1, mlid, 0b1110);  // host1, sw0 and sw2
  set_masks(2, mlid, 0b0110);  // host2 and sw1
  const std::vector<net::Path> paths = net_->walk_multicast(at_host(0), mlid, 0, any_pkey);
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].end, at_host(1));
  EXPECT_EQ(paths[0].hops.size(), 3U);
  EXPECT_EQ(paths[1].end, at_host(2));
  EXPECT_EQ(paths[1].hops.size(), 4U);
  for (const net::Path& path : paths) EXPECT_EQ(path.loss, Loss::none);
}

TEST_F(RouteTest, MulticastLosses) {
  constexpr u16 mlid = 0xc000;
  EXPECT_EQ(net_->walk_multicast(at_host(0), mlid, 0, any_pkey).at(0).loss, Loss::no_route);
  for (u32 i = 0; i < 3; ++i) set_masks(i, mlid, 0b1110);  // a triangle is no tree
  u32 loops = 0;
  for (const net::Path& path : net_->walk_multicast(at_host(0), mlid, 0, any_pkey)) loops += path.loss == Loss::loop;
  EXPECT_GE(loops, 1U);
  EXPECT_TRUE(net_->walk_multicast(at_host(0), 5, 0, any_pkey).empty()) << "not a multicast LID";
}

}  // namespace softib::net::test
