// Links that are paced, slow or lossy.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "engine/world.h"

namespace softib::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr u32 there = 3, back = 4;  // links
constexpr u32 size = 65536;

class Passage : public ::testing::Test {
 public:
  void SetUp() override {
    mine = world.memory(1, size);
    theirs = world.memory(2, size);
    lkey = world.key(*mine, all_access);
    rkey = world.key(*theirs, all_access);
    way = world.way({there}, {back});
    scq = world.cq();
    rcq = world.cq();
  }
  u32 connected(QpType type = QpType::rc) {
    const u32 a = world.qp(1, type, scq, world.cq());
    const u32 b = world.qp(2, type, world.cq(), rcq);
    world.connect(a, b);
    world.record(a).av.way = way;
    return a;
  }
  ipc::Link& link(u32 index) { return world.segment().links[index]; }
  Send transfer(WrOpcode opcode, u32 length = size) {
    Send send;
    send.opcode = opcode;
    send.sges = {{mine->address(), length, lkey}};
    send.remote_address = theirs->address();
    send.rkey = rkey;
    return send;
  }
  // Posts them with one doorbell and waits for all; gives how long that took.
  Clock::duration time_of(u32 qpn, const Send& send, u32 count) {
    const auto start = Clock::now();
    for (u32 i = 0; i < count; ++i) post(world, qpn, send);
    EXPECT_EQ(world.ring(qpn), 0);
    const auto done = world.wait_for(scq, count, 20'000);
    EXPECT_EQ(done.size(), count);
    for (const ib_uverbs_wc& wc : done) EXPECT_EQ(wc.status, 0U);
    return Clock::now() - start;
  }

  World world;
  std::unique_ptr<Memory> mine, theirs;
  u32 lkey, rkey, way, scq, rcq;
};

TEST_F(Passage, PacedLinkCarriesNoMoreThanItsRate) {
  link(there).mbps = 8000;  // a byte a nanosecond
  EXPECT_GE(time_of(connected(), transfer(WrOpcode::rdma_write), 20), microseconds(20 * size / 1000));
}

TEST_F(Passage, OfReadsTheAnswersAreLong) {
  link(back).mbps = 8000;
  EXPECT_GE(time_of(connected(), transfer(WrOpcode::rdma_read), 20), microseconds(20 * size / 1000));
}

TEST_F(Passage, WhoSharesALinkSharesItsRate) {
  link(there).mbps = 8000;
  const u32 first = connected(), second = connected();
  const auto start = Clock::now();
  for (const u32 qpn : {first, second}) {
    for (u32 i = 0; i < 10; ++i) post(world, qpn, transfer(WrOpcode::rdma_write));
    EXPECT_EQ(world.ring(qpn), 0);
  }
  EXPECT_EQ(world.wait_for(scq, 20, 20'000).size(), 20U);
  EXPECT_GE(Clock::now() - start, microseconds(20 * size / 1000));
  EXPECT_EQ(link(there).waited_ns, 0U) << "it sends all the time";
}

// -- who waits: the ports before the slow link, in the direction of the data

class Waits : public Passage {
 public:
  static constexpr u32 slow_ns = size, fast_ns = size / 8;  // a message's time on the links
  static constexpr u32 first = 10, slow = 11, last = 12;    // there; and back the same less 5
  void SetUp() override {
    Passage::SetUp();
    way = world.way({first, slow, last}, {last - 5, slow - 5, first - 5});
    for (const u32 index : {first, last, first - 5, last - 5}) link(index).mbps = 64'000;
    link(slow).mbps = link(slow - 5).mbps = 8'000;
  }
  // About, as headers take time too.
  void expect_waited(u32 index, u64 ns) {
    EXPECT_GE(link(index).waited_ns, ns) << index;
    EXPECT_LE(link(index).waited_ns, ns + ns / 20) << index;
  }
  void expect_calm(std::initializer_list<u32> indices) {
    for (const u32 index : indices) EXPECT_EQ(link(index).waited_ns, 0U) << index;
  }
};

TEST_F(Waits, TheSenderWaitsForTheSlowLink) {
  time_of(connected(), transfer(WrOpcode::rdma_write), 20);
  expect_waited(first, 20 * (slow_ns - fast_ns));
  expect_calm({slow, last, first - 5, slow - 5, last - 5});
}

TEST_F(Waits, OfReadsTheResponderWaits) {
  time_of(connected(), transfer(WrOpcode::rdma_read), 20);
  expect_waited(last - 5, 20 * (slow_ns - fast_ns));
  expect_calm({first, slow, last, first - 5, slow - 5});
}

// Each of two senders has half of what they share; a port doesn't wait twice in the same time.
TEST_F(Waits, WhoSharesALinkWaitsForIt) {
  constexpr u32 other = 13;
  link(other).mbps = 64'000;
  const u32 a = connected(), b = connected(), c = connected();
  world.record(b).av.way = world.way({other, slow, last}, {});
  world.record(c).av.way = world.way({other, slow, last}, {});
  for (const u32 qpn : {a, b, c}) {
    for (u32 i = 0; i < 10; ++i) post(world, qpn, transfer(WrOpcode::rdma_write));
    EXPECT_EQ(world.ring(qpn), 0);
  }
  EXPECT_EQ(world.wait_for(scq, 30, 20'000).size(), 30U);
  EXPECT_GE(link(first).waited_ns, 10 * (slow_ns - fast_ns));
  EXPECT_GE(link(other).waited_ns, 20 * (slow_ns - fast_ns));
  EXPECT_LE(link(other).waited_ns, 31 * slow_ns);
  expect_calm({slow, last});
}

TEST_F(Waits, NobodyWaitsWhereAllLinksAreEquallyFast) {
  link(slow).mbps = 64'000;
  time_of(connected(), transfer(WrOpcode::rdma_write), 20);
  expect_calm({first, slow, last, first - 5, slow - 5, last - 5});
}

TEST_F(Passage, ShortMessagesPassAtOnce) {
  link(there).mbps = link(back).mbps = 8000;
  const u32 qpn = connected();
  post(world, qpn, transfer(WrOpcode::rdma_write, 8));
  EXPECT_EQ(world.ring(qpn), 0);
  EXPECT_EQ(world.poll(scq).size(), 1U) << "by the posting thread";
}

TEST_F(Passage, DelayIsNoMatterOfRate) {
  constexpr milliseconds delay{300};
  link(there).delay_ns = 300'000'000;
  const auto took = time_of(connected(), transfer(WrOpcode::rdma_write), 30);
  EXPECT_GE(took, delay);
  EXPECT_LT(took, 30 * delay) << "they are on their way together";
}

TEST_F(Passage, BytesMoveWhenTheyArrive) {
  link(there).delay_ns = 100'000'000;
  const u32 qpn = connected();
  std::memset(mine->data(), 7, 64);
  post(world, qpn, transfer(WrOpcode::rdma_write, 64));
  EXPECT_EQ(world.ring(qpn), 0);
  EXPECT_EQ(theirs->data()[0], 0);
  EXPECT_EQ(world.wait_for(scq, 1).size(), 1U);
  EXPECT_EQ(theirs->data()[63], 7);
}

TEST_F(Passage, WhatAlwaysGetsLostEndsInRetryExceeded) {
  link(there).drop = 1;
  const u32 qpn = connected();
  post(world, qpn, transfer(WrOpcode::rdma_write));
  post(world, qpn, transfer(WrOpcode::rdma_write));
  EXPECT_EQ(world.ring(qpn), 0);
  const auto done = world.wait_for(scq, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, static_cast<u32>(WcStatus::retry_exc_err));
  EXPECT_EQ(done[1].status, static_cast<u32>(WcStatus::wr_flush_err));
  EXPECT_GE(link(there).lost_packets, 3U) << "the first try and two more";
  EXPECT_EQ(theirs->data()[0], 0);
}

TEST_F(Passage, LostAnswersAreLostToo) {
  link(back).drop = 1;
  const u32 qpn = connected();
  post(world, qpn, transfer(WrOpcode::rdma_write, 8));
  EXPECT_EQ(world.ring(qpn), 0);
  const auto done = world.wait_for(scq, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, static_cast<u32>(WcStatus::retry_exc_err));
  EXPECT_EQ(link(there).lost_packets, 0U);
  EXPECT_EQ(link(back).lost_packets, 3U);
}

// The peer's way does not lead back: no matter of links, but of tables.
TEST_F(Passage, AnswersThatGoAstrayAreCountedOncePerTry) {
  const u32 qpn = connected();
  world.record(world.record(qpn).dest_qpn).av.port = 0;
  post(world, qpn, transfer(WrOpcode::rdma_read));
  EXPECT_EQ(world.ring(qpn), 0);
  const auto done = world.wait_for(scq, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, static_cast<u32>(WcStatus::retry_exc_err));
  const ipc::Traffic& traffic = world.record(qpn).traffic;
  EXPECT_EQ(traffic.out_packets, 3U);
  EXPECT_EQ(traffic.back_packets, 0U);
  EXPECT_EQ(traffic.astray_packets % 3, 0U);
  EXPECT_GE(traffic.astray_packets, 3U * 16) << "all that the responder sends of 64 KiB";
}

TEST_F(Passage, WhoExpectsNoAnswerNeedsNoWayBack) {
  const u32 qpn = connected(QpType::uc);
  world.record(world.record(qpn).dest_qpn).av.port = 0;
  std::memset(mine->data(), 5, 64);
  static_cast<void>(time_of(qpn, transfer(WrOpcode::rdma_write, 64), 1));
  EXPECT_EQ(theirs->data()[63], 5);
  EXPECT_EQ(world.record(qpn).traffic.astray_packets, 0U);
}

// 16 packets each, of which one in five gets lost: only retries bring any message through.
TEST_F(Passage, RetriesGetPastLosses) {
  link(there).drop = 0.2;
  const u32 qpn = connected();
  world.record(qpn).retry_count = world.record(qpn).requester.retries_left = 7;
  std::memset(mine->data(), 9, size);
  static_cast<void>(time_of(qpn, transfer(WrOpcode::rdma_write), 20));
  EXPECT_GT(link(there).lost_packets, 0U);
  EXPECT_EQ(theirs->data()[size - 1], 9);
}

TEST_F(Passage, BitErrorsHitLongPackets) {
  link(there).bit_errors = 1e-5;  // a packet of 4 KiB survives in 7 of 10 cases, a short one nearly always
  const u32 qpn = connected();
  world.record(qpn).retry_count = world.record(qpn).requester.retries_left = 7;
  static_cast<void>(time_of(qpn, transfer(WrOpcode::rdma_write), 20));
  EXPECT_GT(link(there).lost_packets, 0U);
}

TEST_F(Passage, UnreliableMessagesGetLostInSilence) {
  link(there).drop = 1;
  static_cast<void>(time_of(connected(QpType::uc), transfer(WrOpcode::rdma_write), 3));
  EXPECT_EQ(theirs->data()[0], 0);

  const u32 from = world.qp(1, QpType::ud, scq, world.cq());
  const u32 to = world.qp(2, QpType::ud, world.cq(), rcq);
  post_receive(world, to, 1, {{theirs->address(), 4096, rkey}});
  Send send = transfer(WrOpcode::send, 64);
  send.remote_qpn = to;
  send.qkey = 0x1234;
  send.ah = world.ah(1, 2);
  world.segment().ahs[send.ah].av.way = way;
  static_cast<void>(time_of(from, send, 1));
  EXPECT_TRUE(world.poll(rcq).empty());
  link(there).drop = 0;
  static_cast<void>(time_of(from, send, 1));
  EXPECT_EQ(world.poll(rcq).size(), 1U);
}

// Members on ports 2 and 3, whose ways share link 5; 6 is on that to 3 alone.
struct Multicast : Passage {
  static constexpr u32 group = 1, shared = 5, alone = 6;

  void SetUp() override {
    Passage::SetUp();
    from = world.qp(1, QpType::ud, scq, world.cq());
    for (const u32 port : {2U, 3U}) {
      cqs.push_back(world.cq());
      members.push_back(world.qp(2, QpType::ud, world.cq(), cqs.back()));
      world.record(members.back()).port = port;
      world.segment().ports[port].state = ipc::PortState::active;
    }
    ipc::Group& record = world.segment().groups[group];
    record.members = u64{world.way({}, {}, members)} * ipc::page_size + sizeof(ipc::Way);  // as good a list as any
    record.member_count = static_cast<u32>(members.size());
    send = transfer(WrOpcode::send, 64);
    send.remote_qpn = 0xff'ffff;
    send.qkey = 0x1234;
    send.ah = world.ah(1, 2, true);
    auto& av = world.segment().ahs[send.ah].av;
    av.group = group;
    av.reach = ipc::Reach::listed;
    lead_past({0, 1, shared, 2, shared, alone});
  }
  // For ports 1, 2 and 3.
  void lead_past(const std::vector<u32>& links) {
    world.segment().ahs[send.ah].av.way = world.way({there}, links, {1, 2, 3});
  }
  // The ports where it arrives.
  std::vector<u32> reached() {
    for (const u32 member : members) post_receive(world, member, 1, {{theirs->address(), 4096, rkey}});
    static_cast<void>(time_of(from, send, 1));
    std::vector<u32> found;
    for (size_t i = 0; i < cqs.size(); ++i)
      if (!world.poll(cqs[i]).empty()) found.push_back(world.record(members[i]).port);
    return found;
  }

  u32 from = 0;
  Send send;
  std::vector<u32> cqs, members;
};

TEST_F(Multicast, ACopyIsLostBehindTheLossyLinkOnly) {
  EXPECT_EQ(reached(), (std::vector<u32>{2, 3}));
  link(alone).drop = 1;
  EXPECT_EQ(reached(), (std::vector<u32>{2}));
  EXPECT_EQ(link(alone).lost_packets, 1U);
  link(shared).drop = 1;
  EXPECT_TRUE(reached().empty());
  EXPECT_EQ(link(shared).lost_packets, 1U) << "once for all behind it";
  EXPECT_EQ(link(alone).lost_packets, 1U) << "it never came that far";
}

TEST_F(Multicast, NonsenseEndsWithinTheList) {
  lead_past({0, 0xffff'ffff, shared, alone});
  EXPECT_EQ(reached(), (std::vector<u32>{2, 3}));
}

TEST_F(Passage, FlushedWhileOnTheWay) {
  link(there).delay_ns = 3'600'000'000'000;
  const u32 qpn = connected();
  post(world, qpn, transfer(WrOpcode::rdma_write));
  EXPECT_EQ(world.ring(qpn), 0);
  world.record(qpn).state = QpState::err;
  world.engine(1).qp_modified(qpn, QpState::rts, QpState::err);
  const auto done = world.wait_for(scq, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, static_cast<u32>(WcStatus::wr_flush_err));
}

TEST_F(Passage, NonsenseInTheSegmentHarmsNobody) {
  const u32 qpn = connected();
  const u32 endless = world.way({there}, {back});
  auto* words = reinterpret_cast<u32*>(world.segment().arena + u64{endless} * ipc::page_size);
  words[0] = words[1] = words[2] = 0xffff'ffff;
  for (const u32 nonsense : {0xffff'ffffU, endless}) {
    world.record(qpn).av.way = nonsense;
    static_cast<void>(time_of(qpn, transfer(WrOpcode::rdma_write, 8), 1));
  }
  world.record(qpn).av.way = way;
  link(there).drop = -3;
  link(there).bit_errors = __builtin_nan("");
  static_cast<void>(time_of(qpn, transfer(WrOpcode::rdma_write, 8), 1));
}

}  // namespace
}  // namespace softib::test
