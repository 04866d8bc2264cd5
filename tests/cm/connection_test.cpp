// Connections: how they begin, go on when MADs get lost or come twice, and end.
#include <gtest/gtest.h>

#include "cm/fixture.h"

namespace softib::cm {
namespace {

using wire::cm::Attribute;

bool is(const wire::Packet& packet, Attribute what) { return wire::cm::attribute_of(packet.mad) == what; }

TEST(CmConnection, ThreeMessagesMakeOne) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  EXPECT_EQ(wire.ends[0].manager.state(asker), State::established);
  EXPECT_EQ(wire.ends[1].manager.state(answerer), State::established);
  EXPECT_EQ(wire.sent.size(), 3u);
  const Event& request = wire.ends[1].last(Happening::req_received);
  EXPECT_EQ(request.remote_qpn, 0x111u);
  EXPECT_EQ(request.private_data.size(), 92u);
  EXPECT_EQ(request.private_data[2], 3);
  EXPECT_EQ(request.path.dlid, 3);
  EXPECT_EQ(request.path.slid, 4);
  // What the asker can take is what the answerer may begin, and the other way round.
  EXPECT_EQ(request.responder_resources, 3);
  EXPECT_EQ(request.initiator_depth, 4);
  const Event& reply = wire.ends[0].last(Happening::rep_received);
  EXPECT_EQ(reply.remote_qpn, 0x200 + answerer);
  EXPECT_EQ(reply.private_data[0], 9);
}

TEST(CmConnection, QueuePairsGetEachOthersNumbers) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  const auto a = wire.ends[0].manager.queue_pair(asker);
  const auto b = wire.ends[1].manager.queue_pair(answerer);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->send_psn, 0xabcu);
  EXPECT_EQ(b->receive_psn, 0xabcu);
  EXPECT_EQ(b->send_psn, 0xdefu);
  EXPECT_EQ(a->receive_psn, 0xdefu);
  EXPECT_EQ(a->remote_qpn, 0x200 + answerer);
  EXPECT_EQ(b->remote_qpn, 0x111u);
  EXPECT_EQ(a->mtu, 5);
  EXPECT_EQ(b->mtu, 5);
  EXPECT_EQ(b->retry_count, 7);
  EXPECT_GT(a->timeout, 18);
}

TEST(CmConnection, NobodyListensIsAnInvalidServiceId) {
  Wire wire;
  const u32 id = wire.ask(some_parameters(1));
  EXPECT_EQ(wire.ends[0].last(Happening::rejected).status, static_cast<u16>(RejectReason::invalid_service_id));
  EXPECT_EQ(wire.ends[0].manager.state(id), State::idle);
  EXPECT_EQ(wire.ends[1].manager.connections(), 0u);
}

TEST(CmConnection, ConsumersRejectWithTheirData) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 7471, ~0ULL));
  wire.ask(some_parameters());
  const u8 why[] = {5, 6};
  ASSERT_TRUE(wire.ends[1].manager.reject(wire.ends[1].last(Happening::req_received).id, RejectReason::consumer_defined,
                                          why, wire.now));
  wire.settle();
  const Event& rejected = wire.ends[0].last(Happening::rejected);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(rejected.private_data.size(), 148u);
  EXPECT_EQ(rejected.private_data[1], 6);
}

TEST(CmConnection, AnUnansweredRequestIsRepeatedAndGivenUp) {
  Wire wire;
  wire.loses = [](u32, const wire::Packet&) { return true; };
  ConnectParameters p = some_parameters();
  p.max_retries = 3;
  const u32 id = wire.ask(p);
  // Twice the packet's life, and four seconds for the other end.
  const u64 interval = 2 * 1024 * millisecond + 4096 * millisecond;
  wire.pass(3 * interval);
  EXPECT_EQ(wire.count_sent(Attribute::req), 4u);
  EXPECT_EQ(wire.ends[0].count(Happening::req_failed), 0u);
  wire.pass(interval);
  EXPECT_EQ(wire.count_sent(Attribute::req), 4u);
  EXPECT_EQ(wire.ends[0].count(Happening::req_failed), 1u);
  EXPECT_EQ(wire.ends[0].manager.state(id), State::idle);
}

TEST(CmConnection, AnyMessageMayGetLostOnce) {
  for (Attribute lost : {Attribute::req, Attribute::rep, Attribute::rtu}) {
    Wire wire;
    bool done = false;
    wire.loses = [&](u32, const wire::Packet& packet) { return is(packet, lost) && !std::exchange(done, true); };
    const u32 listener = wire.ends[1].manager.create();
    ASSERT_TRUE(wire.ends[1].manager.listen(listener, 7471, ~0ULL));
    wire.ends[1].answer = [&](const Event& event) {
      if (event.what != Happening::req_received) return;
      EXPECT_TRUE(wire.ends[1].manager.accept(event.id, {.qpn = 0x222, .private_data = {}}, wire.now));
    };
    wire.ends[0].answer = [&](const Event& event) {
      if (event.what != Happening::rep_received) return;
      EXPECT_TRUE(wire.ends[0].manager.confirm(event.id, wire.now));
    };
    const u32 id = wire.ask(some_parameters());
    wire.pass(20 * second);
    EXPECT_TRUE(done);
    EXPECT_EQ(wire.ends[0].manager.state(id), State::established);
    EXPECT_EQ(wire.ends[1].count(Happening::req_received), 1u);
    EXPECT_EQ(wire.ends[1].count(Happening::established), 1u) << "lost " << static_cast<int>(lost);
  }
}

TEST(CmConnection, ARepeatedRequestIsOneRequest) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 7471, ~0ULL));
  wire.ask(some_parameters());
  wire.ends[1].manager.received(1, wire.sent[0].packet, false, wire.now);
  EXPECT_EQ(wire.ends[1].count(Happening::req_received), 1u);
  EXPECT_EQ(wire.count_sent(Attribute::mra), 0u);
}

TEST(CmConnection, WhoNeedsTimeSaysSoWhenAskedAgain) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 7471, ~0ULL));
  wire.ends[1].answer = [&](const Event& event) {
    if (event.what != Happening::req_received) return;
    EXPECT_TRUE(wire.ends[1].manager.ask_for_time(event.id, 24));
  };
  const u32 id = wire.ask(some_parameters());
  EXPECT_EQ(wire.count_sent(Attribute::mra), 0u);
  wire.pass(7 * second);
  EXPECT_EQ(wire.count_sent(Attribute::mra), 1u);
  EXPECT_EQ(wire.ends[0].manager.state(id), State::mra_req_received);
  wire.pass(50 * second);  // of the 65 that it asked for
  EXPECT_EQ(wire.count_sent(Attribute::req), 2u);
  const u32 answerer = wire.ends[1].last(Happening::req_received).id;
  EXPECT_TRUE(wire.ends[1].manager.accept(answerer, {.qpn = 0x222, .private_data = {}}, wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[0].count(Happening::rep_received), 1u);
}

TEST(CmConnection, BothLeaveAndForgetAfterAWhile) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  ASSERT_TRUE(wire.ends[0].manager.disconnect(asker, wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[1].count(Happening::dreq_received), 1u);
  ASSERT_TRUE(wire.ends[1].manager.part(answerer, wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[0].count(Happening::drep_received), 1u);
  EXPECT_EQ(wire.ends[0].manager.state(asker), State::timewait);
  EXPECT_EQ(wire.ends[0].manager.waiting(), 1u);
  wire.pass(10 * second);
  EXPECT_EQ(wire.ends[0].count(Happening::timewait_over), 1u);
  EXPECT_EQ(wire.ends[1].count(Happening::timewait_over), 1u);
  EXPECT_EQ(wire.ends[0].manager.waiting(), 0u);
  wire.ends[0].manager.destroy(asker, wire.now);
  EXPECT_EQ(wire.ends[0].manager.connections(), 0u);
}

TEST(CmConnection, BothMayLeaveAtOnce) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  ASSERT_TRUE(wire.ends[0].manager.disconnect(asker, wire.now));
  ASSERT_TRUE(wire.ends[1].manager.disconnect(answerer, wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[0].count(Happening::dreq_received), 1u);
  EXPECT_EQ(wire.ends[1].count(Happening::dreq_received), 1u);
  ASSERT_TRUE(wire.ends[0].manager.part(asker, wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[1].manager.state(answerer), State::timewait);
}

TEST(CmConnection, LeavingSomebodyWhoIsGoneEndsInTime) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  wire.loses = [](u32, const wire::Packet&) { return true; };
  ASSERT_TRUE(wire.ends[0].manager.disconnect(asker, wire.now));
  wire.pass(200 * second);
  EXPECT_EQ(wire.count_sent(Attribute::dreq), 16u);
  EXPECT_EQ(wire.ends[0].count(Happening::dreq_failed), 1u);
  static_cast<void>(answerer);
}

TEST(CmConnection, WhoForgotTheConnectionStillAnswersItsEnd) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  wire.loses = [](u32 from, const wire::Packet&) { return from == 1; };
  wire.ends[1].manager.destroy(answerer, wire.now);
  wire.settle();
  wire.loses = nullptr;
  ASSERT_TRUE(wire.ends[0].manager.disconnect(asker, wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[0].count(Happening::drep_received), 1u);
}

TEST(CmConnection, DestroyingAConnectionTellsTheOther) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  wire.ends[0].manager.destroy(asker, wire.now);
  wire.settle();
  EXPECT_EQ(wire.ends[1].count(Happening::dreq_received), 1u);
  EXPECT_EQ(wire.ends[0].manager.connections(), 0u);
  wire.ends[1].manager.destroy(answerer, wire.now);
  wire.pass(10 * second);
  EXPECT_EQ(wire.ends[0].manager.waiting() + wire.ends[1].manager.waiting(), 0u);
}

TEST(CmConnection, DestroyingARequestTakesItBack) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 7471, ~0ULL));
  const u32 id = wire.ask(some_parameters());
  wire.ends[0].manager.destroy(id, wire.now);
  wire.settle();
  EXPECT_EQ(wire.ends[1].last(Happening::rejected).status, static_cast<u16>(RejectReason::timeout));
}

TEST(CmConnection, AQueuePairThatBelongsToAnotherConnectionIsStale) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  static_cast<void>(asker);
  ConnectParameters again = some_parameters();
  again.qpn = wire.ends[1].last(Happening::req_received).remote_qpn;
  wire.ask(again);
  EXPECT_EQ(wire.ends[0].last(Happening::rejected).status, static_cast<u16>(RejectReason::stale_connection));
  EXPECT_EQ(wire.ends[1].manager.state(answerer), State::dreq_sent);
}

TEST(CmConnection, ANewConnectionMayNotReuseNumbersInTimewait) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  const u32 qpn = wire.ends[1].last(Happening::req_received).remote_qpn;
  wire.ends[0].manager.destroy(asker, wire.now);
  wire.settle();
  wire.ends[1].manager.destroy(answerer, wire.now);
  ConnectParameters again = some_parameters();
  again.qpn = qpn;
  wire.ask(again);
  EXPECT_EQ(wire.ends[0].last(Happening::rejected).status, static_cast<u16>(RejectReason::stale_connection));
  wire.pass(10 * second);
  wire.ask(again);
  EXPECT_EQ(wire.ends[1].count(Happening::req_received), 2u);
}

TEST(CmConnection, TrafficBeforeTheLastMessageEstablishes) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 7471, ~0ULL));
  wire.ask(some_parameters());
  const u32 answerer = wire.ends[1].last(Happening::req_received).id;
  EXPECT_FALSE(wire.ends[1].manager.establish(answerer, wire.now));
  ASSERT_TRUE(wire.ends[1].manager.accept(answerer, {.qpn = 0x222, .private_data = {}}, wire.now));
  ASSERT_TRUE(wire.ends[1].manager.establish(answerer, wire.now));
  EXPECT_EQ(wire.ends[1].count(Happening::established), 1u);
  EXPECT_EQ(to_int(wire.ends[1].manager.establish(answerer, wire.now).error()), EISCONN);
}

TEST(CmConnection, AnAlternatePathIsLoadedAndAnswered) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  Path other = some_path();
  other.slid = 13;
  other.dlid = 14;
  ASSERT_TRUE(wire.ends[0].manager.load_path(asker, other, wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[1].last(Happening::lap_received).alternate->dlid, 13);
  ASSERT_TRUE(wire.ends[1].manager.answer_path(answerer, AprStatus::rejected));
  wire.settle();
  EXPECT_EQ(wire.ends[0].last(Happening::apr_received).status, static_cast<u16>(AprStatus::rejected));
  wire.loses = [](u32, const wire::Packet&) { return true; };
  ASSERT_TRUE(wire.ends[0].manager.load_path(asker, other, wire.now));
  wire.pass(200 * second);
  EXPECT_EQ(wire.ends[0].count(Happening::lap_failed), 1u);
  EXPECT_EQ(wire.ends[0].manager.state(asker), State::established);
}

TEST(CmConnection, WhatAStateForbidsIsRefused) {
  Wire wire;
  Manager& manager = wire.ends[0].manager;
  const u32 id = manager.create();
  EXPECT_FALSE(manager.accept(id, {.private_data = {}}, 0));
  EXPECT_FALSE(manager.confirm(id, 0));
  EXPECT_FALSE(manager.reject(id, RejectReason::consumer_defined, {}, 0));
  EXPECT_FALSE(manager.disconnect(id, 0));
  EXPECT_FALSE(manager.part(id, 0));
  EXPECT_FALSE(manager.ask_for_time(id, 20));
  EXPECT_FALSE(manager.answer_service(id, {.private_data = {}}));
  EXPECT_FALSE(manager.connect(id + 1, some_parameters(), 0));
  ConnectParameters long_data = some_parameters();
  long_data.private_data.resize(93);
  EXPECT_FALSE(manager.connect(id, long_data, 0));
  EXPECT_TRUE(manager.connect(id, some_parameters(), 0));
  EXPECT_FALSE(manager.connect(id, some_parameters(), 0));
  EXPECT_FALSE(manager.listen(id, 1, ~0ULL));
}

// MADs from anybody, in any order, for ids that are there and that are not.
TEST(CmConnection, StrangeMessagesHarmNobody) {
  Wire wire;
  const auto [asker, answerer] = wire.connected();
  for (u32 attribute = 0x10; attribute <= 0x1b; ++attribute) {
    for (const Wire::Sent& one : std::vector(wire.sent)) {
      wire::Packet packet = one.packet;
      wire::set(packet.mad, wire::header::attribute, attribute);
      wire.ends[0].manager.received(1, packet, false, wire.now);
      wire.ends[1].manager.received(1, packet, false, wire.now);
    }
  }
  wire.pass(500 * second);
  wire.ends[0].manager.destroy(asker, wire.now);
  wire.ends[1].manager.destroy(answerer, wire.now);
  wire.pass(500 * second);
  EXPECT_EQ(wire.ends[0].manager.waiting(), 0u);
}

}  // namespace
}  // namespace softib::cm
