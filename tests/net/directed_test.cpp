// Directed routes: where they lead, what makes them fail, and ways that go partly by LID.
#include "lab.h"

namespace softib::net::test {

using DirectedTest = Lab;

TEST_F(DirectedTest, NoHopsAsksTheSendersOwnNode) {
  const Answer answer = get({}, SmpAttribute::node_info);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(host0));
  EXPECT_EQ(answer.get(wire::node_info::local_port), 1U);
  EXPECT_EQ(wire::get(answer.packet.mad, wire::header::hop_pointer), 0U);
}

TEST_F(DirectedTest, ReachesEachNodeAndNotesTheWayBack) {
  const Answer answer = get({1, 2, 3, 1}, SmpAttribute::node_info);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(host2));
  const Path back(answer.packet.mad.begin() + wire::smp::return_path_at + 1,
                  answer.packet.mad.begin() + wire::smp::return_path_at + 5);
  EXPECT_EQ(back, (Path{1, 2, 2, 1}));
  EXPECT_TRUE(wire::get(answer.packet.mad, wire::header::status) & wire::directed_bit);
}

TEST_F(DirectedTest, TellsThroughWhichPortItCame) {
  EXPECT_EQ(get({1}, SmpAttribute::node_info).get(wire::node_info::local_port), 1U);
  EXPECT_EQ(get({1, 2}, SmpAttribute::node_info).get(wire::node_info::local_port), 2U);
  EXPECT_EQ(get({1, 3}, SmpAttribute::node_info).get(wire::node_info::local_port), 3U);
}

TEST_F(DirectedTest, GoesRoundInCirclesUpToTheEnd) {
  Path path{1};
  for (int round = 0; round < 20; ++round) path.insert(path.end(), {2, 3, 3});
  const Answer answer = get(path, SmpAttribute::node_info);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(sw0));
  EXPECT_EQ(answer.get(wire::node_info::local_port), 3U);
}

TEST_F(DirectedTest, LeadsNowhere) {
  EXPECT_FALSE(get({1, 4}, SmpAttribute::node_info).came) << "no cable";
  EXPECT_FALSE(get({1, 200}, SmpAttribute::node_info).came) << "no such port";
  EXPECT_FALSE(get({1, 0}, SmpAttribute::node_info).came) << "port 0 has no link";
  EXPECT_FALSE(get({2}, SmpAttribute::node_info).came) << "a CA has only the port that it is sent from";
  EXPECT_FALSE(get({1, 2, 1, 1}, SmpAttribute::node_info).came) << "a CA passes nothing on";
}

TEST_F(DirectedTest, WrongHopNumbersAreDropped) {
  for (const u32 count : {64U, 200U, 255U}) {
    wire::Packet packet = directed({1, 2}, {});
    wire::set(packet.mad, wire::header::hop_count, count);
    EXPECT_FALSE(ask(at_host(0), packet).came) << count;
  }
  for (const u32 pointer : {1U, 4U, 255U}) {
    wire::Packet packet = directed({1, 2}, {});
    wire::set(packet.mad, wire::header::hop_pointer, pointer);
    EXPECT_FALSE(ask(at_host(0), packet).came) << pointer;
  }
  EXPECT_TRUE(inbox_.empty());
}

TEST_F(DirectedTest, WhatTheNodeDoesntAnswerIsForItsObserver) {
  net_->send(at_host(0), directed({1, 2, 1}, {Method::get, SmpAttribute::sm_info, 0, {}, 0}));
  ASSERT_EQ(inbox_.size(), 1U);
  EXPECT_EQ(inbox_[0].first, at_host(1));
  wire::Packet answer = inbox_[0].second;
  EXPECT_EQ(wire::get(answer.mad, wire::header::hop_pointer), 4U);
  wire::set(answer.mad, wire::header::method, static_cast<u8>(Method::get_resp));
  wire::set(answer.mad, wire::header::status, wire::directed_bit);
  net_->send(at_host(1), answer);
  ASSERT_EQ(inbox_.size(), 2U);
  EXPECT_EQ(inbox_[1].first, at_host(0));
  EXPECT_EQ(wire::get(inbox_[1].second.mad, wire::header::hop_pointer), 0U);
}

TEST_F(DirectedTest, TheFirstPartMayGoByLid) {
  bring_up();
  wire::Packet packet = directed({3, 1}, {});  // from sw1 on
  wire::set(packet.mad, wire::smp::dr_slid, lid_of_host(0));
  packet.slid = lid_of_host(0);
  packet.dlid = lid_of_switch(1);
  const Answer answer = ask(at_host(0), packet);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(host2));
}

TEST_F(DirectedTest, TheLastPartMayGoByLid) {
  bring_up();
  wire::Packet packet = directed({1, 2}, {});
  wire::set(packet.mad, wire::smp::dr_dlid, lid_of_host(2));
  const Answer answer = ask(at_host(0), packet);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(host2));
}

TEST_F(DirectedTest, BothPartsMayGoByLid) {
  bring_up();
  wire::Packet packet = directed({3}, {});  // sw1 to sw2, and on to host1
  wire::set(packet.mad, wire::smp::dr_slid, lid_of_host(0));
  wire::set(packet.mad, wire::smp::dr_dlid, lid_of_host(1));
  packet.slid = lid_of_host(0);
  packet.dlid = lid_of_switch(1);
  const Answer answer = ask(at_host(0), packet);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(host1));
}

TEST_F(DirectedTest, PartsByLidNeedTables) {
  wire::Packet packet = directed({1, 2}, {});
  wire::set(packet.mad, wire::smp::dr_dlid, lid_of_host(2));
  EXPECT_FALSE(ask(at_host(0), packet).came);
}

TEST_F(DirectedTest, VersionsMethodsAndAttributesThatArentThere) {
  wire::Packet packet = directed({1}, {});
  wire::set(packet.mad, wire::header::class_version, 2);
  EXPECT_EQ(ask(at_host(0), packet).status, bad_version);
  packet = directed({1}, {Method::get_table, SmpAttribute::node_info, 0, {}, 0});
  EXPECT_EQ(ask(at_host(0), packet).status, static_cast<u16>(MadStatus::bad_method));
  EXPECT_EQ(get({1}, static_cast<SmpAttribute>(0x77)).status, bad_attribute);
  EXPECT_EQ(set({1}, SmpAttribute::node_info, 0, {}).status, bad_attribute);
}

}  // namespace softib::net::test
