// Rows 6 and 23: receivers that are not ready, and peers that don't answer.
#include <cmath>

#include "support.h"

namespace conformance {
namespace {

// IBTA table 45: what the 5-bit RNR NAK timer field means, in ms.
double rnr_ms(u8 code) {
  static const double table[] = {655.36, 0.01,  0.02,  0.03,  0.04,  0.06,   0.08,   0.12,   0.16,   0.24,  0.32,
                                 0.48,   0.64,  0.96,  1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24, 15.36,
                                 20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  return table[code & 31];
}

class R06Rnr : public Conformance {
 protected:
  static Spec spec(u8 retries, u8 timer) {
    Spec wanted;
    wanted.rnr_retry = retries;
    wanted.min_rnr_timer = timer;
    return wanted;
  }
  static Send small(const Pair& pair, u64 wr_id) { return send_wr(wr_id, {pair.a.buffer.sge(0, 8)}); }
};

class R06Exhausted : public R06Rnr, public testing::WithParamInterface<std::pair<int, int>> {};

// rnr_retry retries, each at least the peer's timer after the NAK; then the error, and the rest is flushed.
TEST_P(R06Exhausted, NotBeforeTheTimers) {
  const auto [retries, timer] = GetParam();
  Pair pair(a(), b(), spec(static_cast<u8>(retries), static_cast<u8>(timer)));
  Stopwatch watch;
  ASSERT_EQ(pair.a.post({small(pair, 1), small(pair, 2), small(pair, 3)}).error, 0);
  const auto wcs = pair.a.sent(3, patience());
  const double took = watch.ms();
  ASSERT_EQ(wcs.size(), 3u);
  EXPECT_EQ(wcs[0].status, IBV_WC_RNR_RETRY_EXC_ERR) << ibv_wc_status_str(wcs[0].status);
  EXPECT_EQ(wcs[0].wr_id, 1u);
  EXPECT_EQ(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wcs[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_GE(took, retries * rnr_ms(static_cast<u8>(timer)));
  EXPECT_LE(took, patience() + 4 * retries * rnr_ms(static_cast<u8>(timer)));
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS) << "not being ready is no error of the responder";
}

INSTANTIATE_TEST_SUITE_P(Timers, R06Exhausted,
                         testing::Values(std::pair{0, 24}, std::pair{1, 26}, std::pair{3, 24}, std::pair{6, 20},
                                         std::pair{2, 1}, std::pair{1, 31}, std::pair{1, 0}),
                         [](const auto& test) {
                           return "Retry" + std::to_string(test.param.first) + "Timer" +
                                  std::to_string(test.param.second);
                         });

TEST_F(R06Rnr, SevenIsForEver) {
  Pair pair(a(), b(), spec(7, 20));  // 10 ms
  ASSERT_EQ(pair.a.post(small(pair, 1)).error, 0);
  EXPECT_TRUE(pair.a.sent(1, 400).empty());
  ASSERT_EQ(pair.b.receive(2, 0, 8).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.received(), 2, IBV_WC_SUCCESS);
}

TEST_F(R06Rnr, ReceivePostedInTime) {
  Pair pair(a(), b(), spec(5, 26));  // 82 ms
  Stopwatch watch;
  ASSERT_EQ(pair.a.post(small(pair, 1)).error, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(pair.b.receive(2, 0, 8).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_GE(watch.ms(), rnr_ms(26)) << "retried before the peer's timer had run out";
}

// The counter starts anew with each message that got through.
TEST_F(R06Rnr, EachMessageHasItsOwnRetries) {
  Pair pair(a(), b(), spec(4, 24));
  for (u64 i = 0; i < 4; ++i) {
    ASSERT_EQ(pair.a.post(small(pair, i)).error, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_EQ(pair.b.receive(10 + i, 0, 8).error, 0);
    expect_wc(pair.a.sent(), i, IBV_WC_SUCCESS);
  }
}

TEST_F(R06Rnr, WhatNeedsAReceive) {
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    SCOPED_TRACE(name_of(opcode));
    Pair pair(a(), b(), spec(1, 16));
    ASSERT_EQ(
        pair.a.post(rdma_wr(1, opcode, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey)).error, 0);
    expect_wc(pair.a.sent(), 1, IBV_WC_RNR_RETRY_EXC_ERR);
  }
}

TEST_F(R06Rnr, WhatNeedsNone) {
  Pair pair(a(), b(), spec(1, 16));
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    ASSERT_EQ(
        pair.a.post(rdma_wr(1, opcode, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey)).error, 0);
    expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  }
}

TEST_F(R06Rnr, EmptySrq) {
  Spec wanted = spec(2, 20);
  wanted.srq = true;
  Pair pair(a(), b(), wanted);
  Stopwatch watch;
  ASSERT_EQ(pair.a.post(small(pair, 1)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_GE(watch.ms(), 2 * rnr_ms(20));
}

// The order of messages survives the waiting.
TEST_F(R06Rnr, OrderIsKept) {
  Pair pair(a(), b(), spec(7, 18));
  std::vector<Send> list;
  for (u64 i = 0; i < 8; ++i) list.push_back(small(pair, i));
  ASSERT_EQ(pair.a.post(list).error, 0);
  for (u64 i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ASSERT_EQ(pair.b.receive(20 + i, 8 * i, 8).error, 0);
  }
  const auto wcs = pair.a.sent(8);
  ASSERT_EQ(wcs.size(), 8u);
  for (u64 i = 0; i < 8; ++i) EXPECT_EQ(wcs[i].wr_id, i);
}

// UC has no acknowledgements: the sender is content, the receiver gets nothing.
TEST_F(R06Rnr, UnreliableDropsSilently) {
  Spec wanted;
  wanted.type = IBV_QPT_UC;
  Pair pair(a(), b(), wanted);
  ASSERT_EQ(pair.a.post(small(pair, 1)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(silence(30)));
  ASSERT_EQ(pair.b.receive(2, 0, 8).error, 0);
  EXPECT_TRUE(pair.b.received(1, silence()).empty());
  ASSERT_EQ(pair.a.post(small(pair, 3)).error, 0);
  expect_wc(pair.b.received(), 2, IBV_WC_SUCCESS);
}

// ---- Row 23

double ack_ms(u8 timeout) { return 0.004096 * std::pow(2.0, timeout); }

class R23Timeout : public Conformance {
 protected:
  static Spec spec(u8 timeout, u8 retry) {
    Spec wanted;
    wanted.timeout = timeout;
    wanted.retry = retry;
    return wanted;
  }

  // Takes the answering side away, but leaves its device alive.
  static void silence_peer(const Pair& pair) { must(modify_state(pair.b, IBV_QPS_RESET), "peer to RESET"); }

  static void expect_timeout(const Pair& pair, const Send& first) {
    Stopwatch watch;
    ASSERT_EQ(pair.a.post({first, send_wr(2, {pair.a.buffer.sge(0, 8)}), send_wr(3, {pair.a.buffer.sge(0, 8)})}).error,
              0);
    const auto wcs = pair.a.sent(3, patience(30000));
    const double took = watch.ms();
    ASSERT_EQ(wcs.size(), 3u);
    EXPECT_EQ(wcs[0].wr_id, first.wr_id);
    EXPECT_EQ(wcs[0].status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wcs[0].status);
    for (size_t i = 1; i < 3; ++i) {
      EXPECT_EQ(wcs[i].wr_id, i + 1);
      EXPECT_EQ(wcs[i].status, IBV_WC_WR_FLUSH_ERR);
    }
    // The timer may run up to four times its value (IBTA 9.7.6.1.3); the rest is for a busy machine.
    EXPECT_GE(took, ack_ms(pair.spec.timeout) * pair.spec.retry);
    EXPECT_LE(took, 4 * ack_ms(pair.spec.timeout) * (pair.spec.retry + 1) + patience());
    EXPECT_EQ(pair.a.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
  }
};

class R23Each : public R23Timeout, public testing::WithParamInterface<ibv_wr_opcode> {};

TEST_P(R23Each, PeerSilent) {
  Pair pair(a(), b(), spec(14, 3));
  silence_peer(pair);
  expect_timeout(pair, rdma_wr(1, GetParam(), {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey));
}

INSTANTIATE_TEST_SUITE_P(Opcodes, R23Each,
                         testing::Values(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                         IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                         IBV_WR_ATOMIC_CMP_AND_SWP),
                         [](const auto& test) { return name_of(test.param); });

class R23Timers : public R23Timeout, public testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(R23Timers, AsTheFormulaSays) {
  Pair pair(a(), b(), spec(static_cast<u8>(GetParam().first), static_cast<u8>(GetParam().second)));
  silence_peer(pair);
  expect_timeout(pair, send_wr(1, {pair.a.buffer.sge(0, 8)}));
}

INSTANTIATE_TEST_SUITE_P(Values, R23Timers,
                         testing::Values(std::pair{12, 7}, std::pair{14, 1}, std::pair{15, 2}, std::pair{16, 0},
                                         std::pair{17, 1}),
                         [](const auto& test) {
                           return "Timeout" + std::to_string(test.param.first) + "Retry" +
                                  std::to_string(test.param.second);
                         });

TEST_F(R23Timeout, VendorErr) {
  Pair pair(a(), b(), spec(12, 1));
  silence_peer(pair);
  ASSERT_EQ(pair.a.post(send_wr(1, {pair.a.buffer.sge(0, 8)})).error, 0);
  const auto wcs = pair.a.sent();
  expect_wc(wcs, 1, IBV_WC_RETRY_EXC_ERR);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].vendor_err, 0x81u);
}

TEST_F(R23Timeout, QpThatNeverWas) {
  Spec wanted = spec(14, 2);
  wanted.connect = false;
  Pair pair(a(), b(), wanted);
  must(modify(pair.a, to_init(wanted, pair.a.info)), "INIT");
  must(modify(pair.a, to_rtr(wanted, pair.a.info, pair.b.info, 0xfffff0)), "RTR");
  must(modify(pair.a, to_rts(wanted)), "RTS");
  expect_timeout(pair, send_wr(1, {pair.a.buffer.sge(0, 8)}));
}

TEST_F(R23Timeout, PeerInInit) {
  Spec wanted = spec(14, 2);
  wanted.connect = false;
  Pair pair(a(), b(), wanted);
  must(modify(pair.a, to_init(wanted, pair.a.info)), "INIT");
  must(modify(pair.b, to_init(wanted, pair.b.info)), "INIT");
  must(modify(pair.a, to_rtr(wanted, pair.a.info, pair.b.info, pair.b.qpn)), "RTR");
  must(modify(pair.a, to_rts(wanted)), "RTS");
  expect_timeout(pair, send_wr(1, {pair.a.buffer.sge(0, 8)}));
}

TEST_F(R23Timeout, PeerInError) {
  Pair pair(a(), b(), spec(14, 2));
  must(modify_state(pair.b, IBV_QPS_ERR), "peer to ERR");
  expect_timeout(pair, send_wr(1, {pair.a.buffer.sge(0, 8)}));
}

TEST_F(R23Timeout, PeerDestroyed) {
  Pair pair(a(), b(), spec(14, 2));
  must(b().destroy_qp(pair.b.qp), "ibv_destroy_qp");
  expect_timeout(pair, send_wr(1, {pair.a.buffer.sge(0, 8)}));
}

// An RC QP takes packets only from the QP that it was connected to.
TEST_F(R23Timeout, PeerConnectedToSomeoneElse) {
  Pair pair(a(), b(), spec(14, 2));
  Spec spec = pair.spec;
  must(modify_state(pair.b, IBV_QPS_RESET), "RESET");
  must(modify(pair.b, to_init(spec, pair.b.info)), "INIT");
  Info stranger = pair.a.info;
  stranger.gid.raw[15] ^= 0x55;
  stranger.port.lid ^= 0x55;
  const int error = modify(pair.b, to_rtr(spec, pair.b.info, stranger, pair.a.qpn ^ 1));
  if (error != 0) GTEST_SKIP() << "the device looks up the address at once and found none";
  ASSERT_EQ(pair.b.receive(9, 0, 64).error, 0);
  expect_timeout(pair, send_wr(1, {pair.a.buffer.sge(0, 8)}));
  EXPECT_TRUE(pair.b.received(1, silence(30)).empty());
}

TEST_F(R23Timeout, LidWithoutARoute) {
  Spec wanted = spec(14, 2);
  wanted.connect = false;
  Pair pair(a(), b(), wanted);
  if (pair.a.info.ethernet) GTEST_SKIP() << "Ethernet has no LIDs";
  Info nowhere = pair.b.info;
  nowhere.port.lid = 0xbeef;
  must(modify(pair.a, to_init(wanted, pair.a.info)), "INIT");
  must(modify(pair.a, to_rtr(wanted, pair.a.info, nowhere, pair.b.qpn)), "RTR");
  must(modify(pair.a, to_rts(wanted)), "RTS");
  expect_timeout(pair, send_wr(1, {pair.a.buffer.sge(0, 8)}));
}

TEST_F(R23Timeout, ZeroWaitsForEver) {
  Pair pair(a(), b(), spec(0, 0));
  silence_peer(pair);
  ASSERT_EQ(pair.a.post(send_wr(1, {pair.a.buffer.sge(0, 8)})).error, 0);
  EXPECT_TRUE(pair.a.sent(1, 700).empty());
}

TEST_F(R23Timeout, PeerComesBackInTime) {
  Pair pair(a(), b(), spec(16, 7));  // 268 ms
  silence_peer(pair);
  ASSERT_EQ(pair.a.post(send_wr(1, {pair.a.buffer.sge(0, 8)})).error, 0);
  const Spec& spec = pair.spec;
  must(modify(pair.b, to_init(spec, pair.b.info)), "INIT");
  ASSERT_EQ(pair.b.receive(2, 0, 8).error, 0);
  must(modify(pair.b, to_rtr(spec, pair.b.info, pair.a.info, pair.a.qpn)), "RTR");
  expect_wc(pair.a.sent(1, patience(10000)), 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.received(), 2, IBV_WC_SUCCESS);
}

TEST_F(R23Timeout, UnreliableNeverWaits) {
  Spec wanted;
  wanted.type = IBV_QPT_UC;
  Pair pair(a(), b(), wanted);
  silence_peer(pair);
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE}) {
    ASSERT_EQ(
        pair.a.post(rdma_wr(1, opcode, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey)).error, 0);
    expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  }
}

// The process at the other end is killed under traffic. Everything sent afterwards ends in RETRY_EXC_ERR.
TEST_F(R23Timeout, PeerKilled) {
  const std::string command = options().peer.empty() ? own_agent_command() : options().peer;
  std::unique_ptr<End> victim = End::remote(command);
  {
    Pair pair(a(), *victim, spec(14, 3));
    expect_traffic(pair);
    victim->agent()->kill(pair.b.info.pid);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    expect_timeout(pair,
                   rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey));
  }
  Pair fresh(a(), b());
  expect_traffic(fresh);
}

TEST_F(R23Timeout, PeerKilledWhileARequestWaits) {
  const std::string command = options().peer.empty() ? own_agent_command() : options().peer;
  std::unique_ptr<End> victim = End::remote(command);
  Spec wanted = spec(14, 3);
  wanted.min_rnr_timer = 24;
  Pair pair(a(), *victim, wanted);
  ASSERT_EQ(pair.a.post(send_wr(1, {pair.a.buffer.sge(0, 8)})).error, 0);  // no receive: it waits
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  victim->agent()->kill(pair.b.info.pid);
  expect_wc(pair.a.sent(1, patience(10000)), 1, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace conformance
