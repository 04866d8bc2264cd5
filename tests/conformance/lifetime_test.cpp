// Row 24: what is in use cannot be destroyed, and is not harmed by the attempt.
#include "support.h"

namespace conformance {
namespace {

class R24Busy : public Conformance {};

TEST_F(R24Busy, PdWithMr) {
  const Id pd = a().alloc_pd().id;
  const Buffer buffer = make_buffer(a(), pd, 4096);
  EXPECT_EQ(a().dealloc_pd(pd), EBUSY);
  ASSERT_EQ(a().dereg_mr(buffer.mr), 0);
  EXPECT_EQ(a().dealloc_pd(pd), 0);
}

TEST_F(R24Busy, PdWithMw) {
  const Id pd = a().alloc_pd().id;
  const MadeMw mw = a().alloc_mw(pd, IBV_MW_TYPE_1);
  if (mw.id == 0) GTEST_SKIP() << "the device has no memory windows";
  EXPECT_EQ(a().dealloc_pd(pd), EBUSY);
  ASSERT_EQ(a().dealloc_mw(mw.id), 0);
  EXPECT_EQ(a().dealloc_pd(pd), 0);
}

TEST_F(R24Busy, PdWithAh) {
  const Id pd = a().alloc_pd().id;
  const Made ah = a().create_ah(pd, address_to(a().info(), b().info(), false));
  ASSERT_NE(ah.id, 0u);
  EXPECT_EQ(a().dealloc_pd(pd), EBUSY);
  ASSERT_EQ(a().destroy_ah(ah.id), 0);
  EXPECT_EQ(a().dealloc_pd(pd), 0);
}

TEST_F(R24Busy, PdWithSrq) {
  const Id pd = a().alloc_pd().id;
  const MadeSrq srq = a().create_srq({pd, 16, 1, 0});
  ASSERT_NE(srq.id, 0u);
  EXPECT_EQ(a().dealloc_pd(pd), EBUSY);
  ASSERT_EQ(a().destroy_srq(srq.id), 0);
  EXPECT_EQ(a().dealloc_pd(pd), 0);
}

TEST_F(R24Busy, PdWithQp) {
  const Id pd = a().alloc_pd().id;
  const Id cq = a().create_cq(16, 0).id;
  const MadeQp qp = a().create_qp({IBV_QPT_RC, pd, cq, cq, 0, {1, 1, 1, 1, 0}, 0, 0});
  ASSERT_NE(qp.id, 0u);
  EXPECT_EQ(a().dealloc_pd(pd), EBUSY);
  ASSERT_EQ(a().destroy_qp(qp.id), 0);
  EXPECT_EQ(a().dealloc_pd(pd), 0);
}

TEST_F(R24Busy, CqOfAQp) {
  Pair pair(a(), b());
  EXPECT_EQ(a().destroy_cq(pair.a.send_cq), EBUSY);
  EXPECT_EQ(a().destroy_cq(pair.a.recv_cq), EBUSY);
  expect_traffic(pair);
  ASSERT_EQ(a().destroy_qp(pair.a.qp), 0);
  EXPECT_EQ(a().destroy_cq(pair.a.send_cq), 0);
  EXPECT_EQ(a().destroy_cq(pair.a.recv_cq), 0);
}

TEST_F(R24Busy, SrqOfAQp) {
  Spec spec;
  spec.srq = true;
  Pair pair(a(), b(), spec);
  EXPECT_EQ(b().destroy_srq(pair.b.srq), EBUSY);
  expect_traffic(pair);
  ASSERT_EQ(b().destroy_qp(pair.b.qp), 0);
  EXPECT_EQ(b().destroy_srq(pair.b.srq), 0);
}

TEST_F(R24Busy, ChannelOfACq) {
  const Id channel = a().create_channel().id;
  const Id cq = a().create_cq(16, channel).id;
  EXPECT_EQ(a().destroy_channel(channel), EBUSY);
  ASSERT_EQ(a().destroy_cq(cq), 0);
  EXPECT_EQ(a().destroy_channel(channel), 0);
}

// Multicast: R28Multicast.DestroyWhileAttachedIsBusy; a region with a window: R25Windows.

// Work under way does not keep a QP: it goes at once, the peer sees silence.
TEST_F(R24Busy, QpUnderTrafficGoes) {
  Spec spec;
  spec.min_rnr_timer = 24;
  Pair pair(a(), b(), spec);
  for (u64 i = 0; i < 8; ++i) ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
  EXPECT_EQ(a().destroy_qp(pair.a.qp), 0);
  EXPECT_EQ(b().destroy_qp(pair.b.qp), 0);
}

TEST_F(R24Busy, MrUnderAPostedReceiveGoes) {
  Pair pair(a(), b());
  ASSERT_EQ(pair.b.receive(1, 0, 64).error, 0);
  EXPECT_EQ(b().dereg_mr(pair.b.buffer.mr), 0);
  ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 64)})).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_REM_OP_ERR);
  expect_wc(pair.b.received(), 1, IBV_WC_LOC_PROT_ERR);
}

// Everything can be made and unmade many times over.
TEST_F(R24Busy, NothingLeaks) {
  const int rounds = options().slow > 1 ? 30 : 300;
  for (int i = 0; i < rounds; ++i) {
    Pair pair(a(), b());
    ASSERT_EQ(a().reset(), 0);
    ASSERT_EQ(b().reset(), 0);
  }
  Pair pair(a(), b());
  expect_traffic(pair);
}

}  // namespace
}  // namespace conformance
