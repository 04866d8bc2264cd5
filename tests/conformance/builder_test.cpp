// The ibv_wr_* interface, one opcode after the other, with what comes of it.
#include <cstring>

#include "support.h"

namespace conformance {
namespace {

// IB_UVERBS_DEVICE_ATOMIC_WRITE: the library's header has no name for it in every version.
[[maybe_unused]] constexpr u64 device_atomic_write = 1ULL << 40;

class Builder : public Conformance {
 protected:
  static Spec spec(u64 ops, ibv_qp_type type = IBV_QPT_RC) {
    Spec wanted;
    wanted.type = type;
    wanted.send_ops = ops;
    wanted.cap.max_inline_data = 64;
    wanted.buffer_access = all_access | IBV_ACCESS_MW_BIND;
    return wanted;
  }
  static std::vector<ibv_wc> run(const Pair& pair, std::vector<Send> list) {
    const u32 count = static_cast<u32>(list.size());
    const Posted posted = pair.a.end->post_builder(pair.a.qp, std::move(list));
    EXPECT_EQ(posted.error, 0);
    return pair.a.sent(count);
  }
};

TEST_F(Builder, Send) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    Pair pair(a(), b(), spec(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM, type));
    for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM}) {
      a().fill(pair.a.buffer.address, 90, 2);
      ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
      const std::vector<ibv_sge> sges = {pair.a.buffer.sge(0, 30), pair.a.buffer.sge(30, 60)};
      conformance::Send send = type == IBV_QPT_UD ? ud_wr(2, sges, pair.a, pair.b) : send_wr(2, sges);
      send.opcode = opcode;
      send.imm = htobe32(55);
      expect_wc(run(pair, {send}), 2, IBV_WC_SUCCESS);
      const auto wcs = pair.b.received();
      expect_wc(wcs, 1, IBV_WC_SUCCESS);
      const u64 room = type == IBV_QPT_UD ? 40 : 0;
      EXPECT_EQ(b().mismatch(pair.b.buffer.address + room, 90, 2), -1);
      if (!wcs.empty() && opcode == IBV_WR_SEND_WITH_IMM) EXPECT_EQ(be32toh(wcs[0].imm_data), 55u);
    }
  }
}

TEST_F(Builder, RdmaWrite) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    Pair pair(a(), b(), spec(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, type));
    a().fill(pair.a.buffer.address, 3000, 2);
    expect_wc(run(pair, {rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 3000)}, pair.b.buffer.address,
                                 pair.b.buffer.rkey)}),
              1, IBV_WC_SUCCESS);
    ASSERT_EQ(pair.b.receive(7, 60000, 8).error, 0);
    conformance::Send imm = rdma_wr(2, IBV_WR_RDMA_WRITE_WITH_IMM, {pair.a.buffer.sge(0, 3000)},
                                    pair.b.buffer.address + 4096, pair.b.buffer.rkey);
    imm.imm = htobe32(66);
    expect_wc(run(pair, {imm}), 2, IBV_WC_SUCCESS);
    const auto wcs = pair.b.received();
    expect_wc(wcs, 7, IBV_WC_SUCCESS);
    if (!wcs.empty()) EXPECT_EQ(be32toh(wcs[0].imm_data), 66u);
    EXPECT_EQ(b().mismatch(pair.b.buffer.address, 3000, 2), -1);
    EXPECT_EQ(b().mismatch(pair.b.buffer.address + 4096, 3000, 2), -1);
  }
}

TEST_F(Builder, RdmaRead) {
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_RDMA_READ));
  b().fill(pair.b.buffer.address, 3000, 2);
  expect_wc(run(pair, {rdma_wr(1, IBV_WR_RDMA_READ, {pair.a.buffer.sge(5, 3000)}, pair.b.buffer.address,
                               pair.b.buffer.rkey)}),
            1, IBV_WC_SUCCESS);
  EXPECT_EQ(a().mismatch(pair.a.buffer.address + 5, 3000, 2), -1);
}

TEST_F(Builder, Atomics) {
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD));
  b().set(pair.b.buffer.address, 8, 0);
  expect_wc(run(pair, {atomic_wr(1, IBV_WR_ATOMIC_FETCH_AND_ADD, pair.a.buffer.sge(0, 8), pair.b.buffer.address,
                                 pair.b.buffer.rkey, 5)}),
            1, IBV_WC_SUCCESS);
  expect_wc(run(pair, {atomic_wr(1, IBV_WR_ATOMIC_CMP_AND_SWP, pair.a.buffer.sge(8, 8), pair.b.buffer.address,
                                 pair.b.buffer.rkey, 5, 9)}),
            1, IBV_WC_SUCCESS);
  EXPECT_EQ(a().read_bytes(pair.a.buffer.address + 8, 8), (Bytes{5, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(b().read_bytes(pair.b.buffer.address, 8), (Bytes{9, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_F(Builder, BindAndInvalidate) {
  const u32 flags = a().info().device.device_cap_flags;
  if (!(flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
    GTEST_SKIP() << "the device has no type 2 windows";
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV));
  const MadeMw mw = a().alloc_mw(pair.a.pd, IBV_MW_TYPE_2);
  ASSERT_NE(mw.id, 0u);
  conformance::Send bind;
  bind.wr_id = 1;
  bind.opcode = IBV_WR_BIND_MW;
  bind.bind = {mw.id, pair.a.buffer.mr, pair.a.buffer.address, 4096, IBV_ACCESS_REMOTE_WRITE, ibv_inc_rkey(mw.rkey)};
  expect_wc(run(pair, {bind}), 1, IBV_WC_SUCCESS);
  ASSERT_EQ(b().fill(pair.b.buffer.address, 8, 2), 0);
  conformance::Send invalidate;
  invalidate.wr_id = 2;
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.imm = bind.bind.new_rkey;
  const auto wcs = run(pair, {invalidate});
  expect_wc(wcs, 2, IBV_WC_SUCCESS);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].opcode, IBV_WC_LOCAL_INV);
}

TEST_F(Builder, SendWithInvalidate) {
  const u32 flags = b().info().device.device_cap_flags;
  if (!(flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
    GTEST_SKIP() << "the device has no type 2 windows";
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV));
  const MadeMw mw = b().alloc_mw(pair.b.pd, IBV_MW_TYPE_2);
  conformance::Send bind;
  bind.wr_id = 1;
  bind.opcode = IBV_WR_BIND_MW;
  bind.bind = {mw.id, pair.b.buffer.mr, pair.b.buffer.address, 4096, IBV_ACCESS_REMOTE_WRITE, ibv_inc_rkey(mw.rkey)};
  ASSERT_EQ(b().post_builder(pair.b.qp, {bind}).error, 0);
  expect_wc(pair.b.sent(), 1, IBV_WC_SUCCESS);
  ASSERT_EQ(pair.b.receive(3, 8192, 64).error, 0);
  conformance::Send send = send_wr(4, {pair.a.buffer.sge(0, 8)});
  send.opcode = IBV_WR_SEND_WITH_INV;
  send.imm = bind.bind.new_rkey;
  expect_wc(run(pair, {send}), 4, IBV_WC_SUCCESS);
  const auto wcs = pair.b.received();
  expect_wc(wcs, 3, IBV_WC_SUCCESS);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].invalidated_rkey, bind.bind.new_rkey);
}

// Several requests between start and complete go together, in order.
TEST_F(Builder, OneBatchOfMany) {
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND));
  a().fill(pair.a.buffer.address, 4096, 2);
  ASSERT_EQ(pair.b.receive(1, 8192, 64).error, 0);
  std::vector<conformance::Send> list;
  for (u64 i = 0; i < 8; ++i) {
    list.push_back(rdma_wr(i, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(i * 512, 512)}, pair.b.buffer.address + i * 512,
                           pair.b.buffer.rkey));
  }
  list.push_back(send_wr(8, {pair.a.buffer.sge(0, 8)}));
  const auto wcs = run(pair, list);
  ASSERT_EQ(wcs.size(), 9u);
  for (u64 i = 0; i < 9; ++i) EXPECT_EQ(wcs[i].wr_id, i);
  expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(pair.b.buffer.address, 4096, 2), -1);
}

// What was built and then given up is not sent.
TEST_F(Builder, Abort) {
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_SEND));
  ASSERT_EQ(pair.b.receive({{1, {pair.b.buffer.sge(0, 8)}}, {2, {pair.b.buffer.sge(0, 8)}}}).error, 0);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a().device()->qp(pair.a.qp));
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_id = 5;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, pair.a.buffer.lkey, pair.a.buffer.address, 8);
  ibv_wr_abort(qp);
  EXPECT_TRUE(pair.a.sent(1, silence(50)).empty());
  expect_wc(run(pair, {send_wr(6, {pair.a.buffer.sge(0, 8)})}), 6, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.received(2, silence()).size(), 1u);
}

// Both interfaces may be used on one QP.
TEST_F(Builder, MixedWithPostSend) {
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_RDMA_WRITE));
  const conformance::Send write =
      rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey);
  for (int i = 0; i < 10; ++i) {
    expect_wc(run(pair, {write}), 1, IBV_WC_SUCCESS);
    ASSERT_EQ(pair.a.post(write).error, 0);
    expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  }
}

TEST_F(Builder, OperationsThatTheServiceLacks) {
  Pair pair(a(), b());
  const Node& node = pair.a;
  const MadeQp uc =
      a().create_qp({IBV_QPT_UC, node.pd, node.send_cq, node.recv_cq, 0, {4, 4, 1, 1, 0}, 0, IBV_QP_EX_WITH_RDMA_READ});
  EXPECT_EQ(uc.id, 0u);
  EXPECT_TRUE(uc.error == EOPNOTSUPP || uc.error == EINVAL) << uc.error;
  const MadeQp ud = a().create_qp(
      {IBV_QPT_UD, node.pd, node.send_cq, node.recv_cq, 0, {4, 4, 1, 1, 0}, 0, IBV_QP_EX_WITH_RDMA_WRITE});
  EXPECT_EQ(ud.id, 0u);
  EXPECT_TRUE(ud.error == EOPNOTSUPP || ud.error == EINVAL) << ud.error;
}

#ifdef CONFORMANCE_HAS_ATOMIC_WRITE
TEST_F(Builder, AtomicWrite) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(a().device()->context(), nullptr, &attr), 0);
  if (!(attr.device_cap_flags_ex & device_atomic_write)) GTEST_SKIP() << "the device does not offer atomic write";
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_ATOMIC_WRITE));
  b().set(pair.b.buffer.address, 64, 0xcc);
  conformance::Send send = rdma_wr(1, IBV_WR_ATOMIC_WRITE, {}, pair.b.buffer.address + 8, pair.b.buffer.rkey);
  send.swap = 0x0807060504030201;
  const auto wcs = run(pair, {send});
  expect_wc(wcs, 1, IBV_WC_SUCCESS);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(b().read_bytes(pair.b.buffer.address + 8, 8), (Bytes{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(b().differs(pair.b.buffer.address, 8, 0xcc), -1);
  EXPECT_EQ(b().differs(pair.b.buffer.address + 16, 48, 0xcc), -1);
}

TEST_F(Builder, AtomicWriteMisaligned) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(a().device()->context(), nullptr, &attr), 0);
  if (!(attr.device_cap_flags_ex & device_atomic_write)) GTEST_SKIP() << "the device does not offer atomic write";
  Pair pair(a(), b(), spec(IBV_QP_EX_WITH_ATOMIC_WRITE));
  expect_wc(run(pair, {rdma_wr(1, IBV_WR_ATOMIC_WRITE, {}, pair.b.buffer.address + 4, pair.b.buffer.rkey)}), 1,
            IBV_WC_REM_INV_REQ_ERR);
}
#endif

#ifdef CONFORMANCE_HAS_FLUSH
TEST_F(Builder, Flush) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(a().device()->context(), nullptr, &attr), 0);
  if (!(attr.device_cap_flags_ex & IBV_DEVICE_FLUSH_GLOBAL)) GTEST_SKIP() << "the device does not offer flush";
  Spec wanted = spec(IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE);
  wanted.buffer_access |= IBV_ACCESS_FLUSH_GLOBAL;
  wanted.qp_access |= IBV_ACCESS_FLUSH_GLOBAL;
  Pair pair(a(), b(), wanted);
  conformance::Send flush = rdma_wr(2, IBV_WR_FLUSH, {}, pair.b.buffer.address, pair.b.buffer.rkey);
  flush.compare_add = 4096;
  flush.swap = IBV_FLUSH_GLOBAL << 8 | IBV_FLUSH_RANGE;
  const auto wcs = run(
      pair,
      {rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 4096)}, pair.b.buffer.address, pair.b.buffer.rkey), flush});
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[1].status, IBV_WC_SUCCESS);
}
#endif

}  // namespace
}  // namespace conformance
