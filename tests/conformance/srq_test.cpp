// Row 21: shared receive queues.
#include "support.h"

namespace conformance {
namespace {

class R21Srq : public Conformance {
 protected:
  static Spec spec() {
    Spec wanted;
    wanted.srq = true;
    wanted.cap = {64, 32, 2, 2, 0};
    return wanted;
  }

  static void fill(const Pair& pair, u32 count) {
    std::vector<Recv> list;
    for (u32 i = 0; i < count; ++i) list.push_back({100 + i, {pair.b.buffer.sge(0, 64)}});
    must(pair.b.receive(list).error, "ibv_post_srq_recv");
  }

  static void use(const Pair& pair, u32 count) {
    for (u32 i = 0; i < count; ++i) {
      must(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, "ibv_post_send");
      expect_wc(pair.a.sent(), i, IBV_WC_SUCCESS);
      EXPECT_EQ(pair.b.received().size(), 1u);
    }
  }

  static int arm(const Pair& pair, u32 limit) {
    ibv_srq_attr attr{};
    attr.srq_limit = limit;
    return pair.b.end->modify_srq(pair.b.srq, attr, IBV_SRQ_LIMIT);
  }

  static Event limit_event(const Pair& pair, u32 timeout_ms) {
    return wait_for(*pair.b.end, IBV_EVENT_SRQ_LIMIT_REACHED, timeout_ms);
  }
};

TEST_F(R21Srq, LimitOnceThenDisarmed) {
  Pair pair(a(), b(), spec());
  fill(pair, 10);
  ASSERT_EQ(arm(pair, 5), 0);
  EXPECT_EQ(b().query_srq(pair.b.srq).srq_limit, 5u);
  use(pair, 5);  // five left: not below the limit
  EXPECT_TRUE(limit_event(pair, silence()).none);
  use(pair, 1);
  const Event event = limit_event(pair, patience(1000));
  ASSERT_FALSE(event.none) << "no IBV_EVENT_SRQ_LIMIT_REACHED";
  EXPECT_EQ(event.object, pair.b.srq);
  EXPECT_EQ(b().query_srq(pair.b.srq).srq_limit, 0u);
  use(pair, 3);
  EXPECT_TRUE(limit_event(pair, silence()).none) << "a second event without arming";
}

TEST_F(R21Srq, LimitArmedAgain) {
  Pair pair(a(), b(), spec());
  for (int round = 0; round < 3; ++round) {
    fill(pair, 4);
    ASSERT_EQ(arm(pair, 2), 0);
    use(pair, 4);
    EXPECT_FALSE(limit_event(pair, patience(1000)).none) << "round " << round;
    EXPECT_TRUE(limit_event(pair, silence(50)).none) << "round " << round;
  }
}

// Armed while the queue is already short: one event, at the latest with the next receive that is used.
TEST_F(R21Srq, ArmedBelowTheLimit) {
  Pair pair(a(), b(), spec());
  fill(pair, 3);
  ASSERT_EQ(arm(pair, 10), 0);
  use(pair, 1);
  EXPECT_FALSE(limit_event(pair, patience(1000)).none);
  use(pair, 1);
  EXPECT_TRUE(limit_event(pair, silence()).none);
}

TEST_F(R21Srq, LimitZeroDisarms) {
  Pair pair(a(), b(), spec());
  fill(pair, 4);
  ASSERT_EQ(arm(pair, 4), 0);
  ASSERT_EQ(arm(pair, 0), 0);
  use(pair, 4);
  EXPECT_TRUE(limit_event(pair, silence()).none);
}

TEST_F(R21Srq, LimitAboveTheSize) {
  Pair pair(a(), b(), spec());
  EXPECT_EQ(arm(pair, b().query_srq(pair.b.srq).max_wr + 1), EINVAL);
}

TEST_F(R21Srq, LastWqeReached) {
  Pair pair(a(), b(), spec());
  fill(pair, 4);
  use(pair, 1);
  must(modify_state(pair.b, IBV_QPS_ERR), "ERR");
  const Event event = wait_for(b(), IBV_EVENT_QP_LAST_WQE_REACHED, patience(1000));
  ASSERT_FALSE(event.none) << "no IBV_EVENT_QP_LAST_WQE_REACHED";
  EXPECT_EQ(event.object, pair.b.qp);
  EXPECT_TRUE(wait_for(b(), IBV_EVENT_QP_LAST_WQE_REACHED, silence(50)).none);
  EXPECT_TRUE(pair.b.received(1, silence(30)).empty()) << "the receives of an SRQ are not flushed with one QP";
}

TEST_F(R21Srq, LastWqeReachedAfterAnError) {
  Pair pair(a(), b(), spec());
  fill(pair, 4);
  ASSERT_EQ(pair.a.post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, 0)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
  const Event event = wait_for(b(), IBV_EVENT_QP_LAST_WQE_REACHED, patience(1000));
  ASSERT_FALSE(event.none) << "no IBV_EVENT_QP_LAST_WQE_REACHED";
  EXPECT_EQ(event.object, pair.b.qp);
}

TEST_F(R21Srq, NoLastWqeWithoutAnSrq) {
  Pair pair(a(), b());
  must(modify_state(pair.b, IBV_QPS_ERR), "ERR");
  EXPECT_TRUE(wait_for(b(), IBV_EVENT_QP_LAST_WQE_REACHED, silence()).none);
}

// Two QPs take from one queue, in the order of arrival; one in ERR leaves the other in peace.
TEST_F(R21Srq, SharedByTwo) {
  Pair first(a(), b(), spec());
  Spec plain = spec();
  plain.connect = false;
  Pair second(a(), b(), plain);
  ASSERT_EQ(b().destroy_qp(second.b.qp), 0);
  const MadeQp qp =
      b().create_qp({IBV_QPT_RC, first.b.pd, first.b.send_cq, first.b.recv_cq, first.b.srq, plain.cap, 0, 0});
  ASSERT_NE(qp.id, 0u);
  second.b.qp = qp.id;
  second.b.qpn = qp.qpn;
  second.connect();
  fill(first, 4);
  ASSERT_EQ(first.a.post(send_wr(1, {first.a.buffer.sge(0, 8)})).error, 0);
  expect_wc(first.a.sent(), 1, IBV_WC_SUCCESS);
  ASSERT_EQ(second.a.post(send_wr(2, {second.a.buffer.sge(0, 8)})).error, 0);
  expect_wc(second.a.sent(), 2, IBV_WC_SUCCESS);
  const auto wcs = first.b.received(2);
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[0].wr_id, 100u);
  EXPECT_EQ(wcs[0].qp_num, first.b.qpn);
  EXPECT_EQ(wcs[1].wr_id, 101u);
  EXPECT_EQ(wcs[1].qp_num, second.b.qpn);
  must(modify_state(first.b, IBV_QPS_ERR), "ERR");
  ASSERT_EQ(second.a.post(send_wr(3, {second.a.buffer.sge(0, 8)})).error, 0);
  expect_wc(second.a.sent(), 3, IBV_WC_SUCCESS);
}

// Grows and shrinks with receives in it.
TEST_F(R21Srq, Resize) {
  Pair pair(a(), b(), spec());
  if (!(pair.b.info.device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE)) GTEST_SKIP() << "the device cannot resize an SRQ";
  fill(pair, 6);
  ibv_srq_attr attr{};
  attr.max_wr = 200;
  ASSERT_EQ(b().modify_srq(pair.b.srq, attr, IBV_SRQ_MAX_WR), 0);
  EXPECT_GE(b().query_srq(pair.b.srq).max_wr, 200u);
  fill(pair, 150);
  attr.max_wr = 2;
  EXPECT_NE(b().modify_srq(pair.b.srq, attr, IBV_SRQ_MAX_WR), 0) << "156 receives do not fit";
  for (u32 i = 0; i < 8; ++i) {
    ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
    expect_wc(pair.a.sent(), i, IBV_WC_SUCCESS);
    expect_wc(pair.b.received(), i < 6 ? 100 + i : 100 + i - 6, IBV_WC_SUCCESS);
  }
}

TEST_F(R21Srq, CreationLimits) {
  Pair pair(a(), b());
  const Info info = pair.a.info;
  EXPECT_EQ(a().create_srq({pair.a.pd, static_cast<u32>(info.device.max_srq_wr) + 1, 1, 0}).error, EINVAL);
  EXPECT_EQ(a().create_srq({pair.a.pd, 16, static_cast<u32>(info.device.max_srq_sge) + 1, 0}).error, EINVAL);
}

TEST_F(R21Srq, Datagrams) {
  Spec wanted = spec();
  wanted.type = IBV_QPT_UD;
  Pair pair(a(), b(), wanted);
  fill(pair, 2);
  ASSERT_EQ(pair.a.post(ud_wr(1, {pair.a.buffer.sge(0, 8)}, pair.a, pair.b)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  const auto wcs = pair.b.received();
  expect_wc(wcs, 100, IBV_WC_SUCCESS);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].byte_len, 48u);
}

}  // namespace
}  // namespace conformance
