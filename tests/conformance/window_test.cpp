// Row 25: memory windows. IBTA 10.6.7 and 10.6.7.2.
#include "support.h"

namespace conformance {
namespace {

constexpr u32 window_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr u64 window_size = 4096;

// The window's owner is b; a reaches into it.
class R25Windows : public Conformance, public testing::WithParamInterface<ibv_mw_type> {
 protected:
  void SetUp() override {
    const u32 flags = b().info().device.device_cap_flags;
    const u32 type2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    if (GetParam() == IBV_MW_TYPE_1 && !(flags & IBV_DEVICE_MEM_WINDOW))
      GTEST_SKIP() << "the device has no type 1 windows";
    if (GetParam() == IBV_MW_TYPE_2 && !(flags & type2)) GTEST_SKIP() << "the device has no type 2 windows";
    pair_ = std::make_unique<Pair>(a(), b(), spec());
    bind_ = window();
  }

  static Spec spec() {
    Spec wanted;
    wanted.buffer_access = all_access | IBV_ACCESS_MW_BIND;
    return wanted;
  }

  bool type1() const { return GetParam() == IBV_MW_TYPE_1; }
  const Node& owner() const { return pair_->b; }

  MwBind window() {
    const MadeMw mw = b().alloc_mw(owner().pd, GetParam());
    must(mw.error, "ibv_alloc_mw");
    rkey_ = mw.rkey;
    return {mw.id, owner().buffer.mr, owner().buffer.address + 8192, window_size, window_access, 0};
  }

  static Send bind_wr(u64 wr_id, const MwBind& request) {
    Send send;
    send.wr_id = wr_id;
    send.opcode = IBV_WR_BIND_MW;
    send.bind = request;
    return send;
  }

  // Posts a bind on the owner's QP and gives its status; on success rkey_ is the window's new key.
  ibv_wc_status bind(const MwBind& wanted) {
    MwBind request = wanted;
    if (type1()) {
      const MadeMw bound = b().bind_mw(owner().qp, request, 50);
      if (bound.error != 0) return IBV_WC_GENERAL_ERR;
      const ibv_wc_status status = status_of(owner().sent());
      if (status == IBV_WC_SUCCESS) rkey_ = bound.rkey;
      return status;
    }
    request.new_rkey = ibv_inc_rkey(rkey_);
    if (owner().post(bind_wr(50, request)).error != 0) return IBV_WC_GENERAL_ERR;
    const auto wcs = owner().sent();
    if (status_of(wcs) == IBV_WC_SUCCESS) {
      rkey_ = request.new_rkey;
      b().set_mw_rkey(request.mw, rkey_);
      EXPECT_EQ(wcs[0].opcode, IBV_WC_BIND_MW);
    }
    return status_of(wcs);
  }

  // Refused, whether the provider sees it at once or the device on carrying it out.
  void expect_refused(const MwBind& wanted) {
    MwBind request = wanted;
    request.new_rkey = ibv_inc_rkey(rkey_);
    const int error = type1() ? b().bind_mw(owner().qp, request, 51).error : owner().post(bind_wr(51, request)).error;
    if (error != 0) {
      EXPECT_TRUE(error == EINVAL || error == EPERM || error == EOPNOTSUPP) << error;
      return;
    }
    const ibv_wc_status status = status_of(owner().sent());
    EXPECT_TRUE(status == IBV_WC_MW_BIND_ERR || status == IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(status);
  }

  ibv_wc_status access(ibv_wr_opcode opcode, u64 address, u64 length, u32 rkey) {
    must(pair_->a.post(rdma_wr(60, opcode, {pair_->a.buffer.sge(0, length)}, address, rkey)).error, "ibv_post_send");
    return status_of(pair_->a.sent());
  }
  ibv_wc_status write(u32 rkey, u64 offset = 0, u64 length = 8) {
    return access(IBV_WR_RDMA_WRITE, bind_.address + offset, length, rkey);
  }

  // Into the window, but to a QP of the same PD that did not bind it.
  ibv_wc_status write_through_another_qp() {
    Spec wanted = spec();
    wanted.connect = false;
    Pair other(a(), b(), wanted);
    must(b().destroy_qp(other.b.qp), "ibv_destroy_qp");
    const MadeQp qp = b().create_qp({IBV_QPT_RC, owner().pd, other.b.send_cq, other.b.recv_cq, 0, wanted.cap, 0, 0});
    other.b.qp = qp.id;
    other.b.qpn = qp.qpn;
    other.connect();
    must(other.a.post(rdma_wr(61, IBV_WR_RDMA_WRITE, {other.a.buffer.sge(0, 8)}, bind_.address, rkey_)).error,
         "ibv_post_send");
    return status_of(other.a.sent());
  }

  // By a message from a; the owner has posted receive 1 for it.
  ibv_wc_status remote_invalidate(u32 rkey) {
    must(owner().receive(1, 0, 64).error, "ibv_post_recv");
    Send send = send_wr(62, {pair_->a.buffer.sge(0, 8)});
    send.opcode = IBV_WR_SEND_WITH_INV;
    send.imm = rkey;
    must(pair_->a.post(send).error, "ibv_post_send");
    return status_of(pair_->a.sent());
  }

  // After an access error both QPs are in ERR; connects them again.
  void reconnect() {
    must(modify_state(pair_->a, IBV_QPS_RESET), "RESET");
    must(modify_state(pair_->b, IBV_QPS_RESET), "RESET");
    pair_->connect();
  }

  std::unique_ptr<Pair> pair_;
  MwBind bind_;
  u32 rkey_ = 0;
};

TEST_P(R25Windows, BindAndUse) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  a().fill(pair_->a.buffer.address, 1000, 4);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, bind_.address + 100, 1000, rkey_), IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(bind_.address + 100, 1000, 4), -1);
  a().set(pair_->a.buffer.address, 1000, 0);
  EXPECT_EQ(access(IBV_WR_RDMA_READ, bind_.address + 100, 1000, rkey_), IBV_WC_SUCCESS);
  EXPECT_EQ(a().mismatch(pair_->a.buffer.address, 1000, 4), -1);
  EXPECT_EQ(access(IBV_WR_ATOMIC_FETCH_AND_ADD, bind_.address, 8, rkey_), IBV_WC_SUCCESS);
}

TEST_P(R25Windows, WholeWindowAndNoMore) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_EQ(write(rkey_, 0, window_size), IBV_WC_SUCCESS);
  EXPECT_EQ(write(rkey_, window_size - 1, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(write(rkey_, window_size - 1, 2), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Windows, JustBefore) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, bind_.address - 1, 2, rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Windows, BeforeTheFirstBind) { EXPECT_EQ(write(rkey_), IBV_WC_REM_ACCESS_ERR); }

TEST_P(R25Windows, WindowRefusesWhatItWasNotGiven) {
  const std::pair<u32, ibv_wr_opcode> cases[] = {
      {window_access & ~IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
      {window_access & ~IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
      {window_access & ~IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD}};
  for (const auto& [granted, opcode] : cases) {
    SCOPED_TRACE(name_of(opcode));
    bind_ = window();
    bind_.access = granted;
    ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
    EXPECT_EQ(access(opcode, bind_.address, 8, rkey_), IBV_WC_REM_ACCESS_ERR);
    reconnect();
  }
}

// A window may give rights that its region does not: only binding and local writing are asked of the region.
TEST_P(R25Windows, RegionNeedsNoRemoteRights) {
  const MadeMr mr = b().reg_mr(owner().pd, owner().buffer.address, 65536, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ASSERT_NE(mr.id, 0u);
  bind_.mr = mr.id;
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_EQ(write(rkey_), IBV_WC_SUCCESS);
}

TEST_P(R25Windows, RegionsOwnKeyStillWorks) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_EQ(write(owner().buffer.rkey), IBV_WC_SUCCESS);
}

TEST_P(R25Windows, BindNeedsTheRight) {
  const MadeMr mr = b().reg_mr(owner().pd, owner().buffer.address, 65536, all_access);
  bind_.mr = mr.id;
  expect_refused(bind_);
}

TEST_P(R25Windows, BindForWritingNeedsLocalWrite) {
  const MadeMr mr = b().reg_mr(owner().pd, owner().buffer.address, 65536, IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr.id, 0u);
  bind_.mr = mr.id;
  bind_.access = IBV_ACCESS_REMOTE_WRITE;
  expect_refused(bind_);
}

TEST_P(R25Windows, BindBeyondTheRegion) {
  bind_.address = owner().buffer.address + owner().buffer.size - 100;
  expect_refused(bind_);
}

TEST_P(R25Windows, BindBeforeTheRegion) {
  bind_.address = owner().buffer.address - 100;
  expect_refused(bind_);
}

TEST_P(R25Windows, BindToARegionOfAnotherPd) {
  const Id pd = b().alloc_pd().id;
  const MadeMr mr = b().reg_mr(pd, owner().buffer.address, 65536, all_access | IBV_ACCESS_MW_BIND);
  bind_.mr = mr.id;
  expect_refused(bind_);
}

TEST_P(R25Windows, WindowOfAnotherPd) {
  const Id pd = b().alloc_pd().id;
  const MadeMw mw = b().alloc_mw(pd, GetParam());
  ASSERT_NE(mw.id, 0u);
  bind_.mw = mw.id;
  rkey_ = mw.rkey;
  expect_refused(bind_);
}

TEST_P(R25Windows, RegionIsBusyWhileBound) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_EQ(b().dereg_mr(owner().buffer.mr), EBUSY);
  EXPECT_EQ(write(rkey_), IBV_WC_SUCCESS) << "the refused deregistration must change nothing";
  ASSERT_EQ(b().dealloc_mw(bind_.mw), 0);
  EXPECT_EQ(b().dereg_mr(owner().buffer.mr), 0);
}

TEST_P(R25Windows, DeallocatedWindowIsStale) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  ASSERT_EQ(b().dealloc_mw(bind_.mw), 0);
  EXPECT_EQ(write(rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Windows, ManyWindowsOnOneRegion) {
  std::vector<u32> keys;
  for (int i = 0; i < 8; ++i) {
    bind_ = window();
    bind_.address += static_cast<u64>(i) * 512;
    bind_.length = 512;
    ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
    keys.push_back(rkey_);
  }
  const u64 start = owner().buffer.address + 8192;
  for (u64 i = 0; i < 8; ++i) EXPECT_EQ(access(IBV_WR_RDMA_WRITE, start + i * 512, 512, keys[i]), IBV_WC_SUCCESS);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, start, 8, keys[1]), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Windows, WindowInDatagramQpIsRefused) {
  Spec wanted;
  wanted.type = IBV_QPT_UD;
  Pair ud(a(), b(), wanted);
  bind_.new_rkey = ibv_inc_rkey(rkey_);
  const Posted posted = ud.b.post(bind_wr(50, bind_));
  if (posted.error != 0)
    EXPECT_TRUE(posted.error == EINVAL || posted.error == EOPNOTSUPP);
  else
    EXPECT_EQ(status_of(ud.b.sent()), IBV_WC_LOC_QP_OP_ERR);
}

INSTANTIATE_TEST_SUITE_P(Types, R25Windows, testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2),
                         [](const auto& test) { return test.param == IBV_MW_TYPE_1 ? "Type1" : "Type2"; });

// ---- Type 1 only: each bind ends the one before.

class R25Type1 : public R25Windows {};

TEST_P(R25Type1, RebindMakesTheOldKeyStale) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  const u32 old = rkey_;
  bind_.address += 4096;
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_NE(rkey_, old);
  EXPECT_EQ(write(rkey_), IBV_WC_SUCCESS);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, bind_.address - 4096, 8, old), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Type1, BindOfNothingUnbinds) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  const u32 old = rkey_;
  MwBind nothing = bind_;
  nothing.length = 0;
  ASSERT_EQ(bind(nothing), IBV_WC_SUCCESS);
  EXPECT_EQ(write(old), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b().dereg_mr(owner().buffer.mr), 0) << "an unbound window holds nothing";
}

TEST_P(R25Type1, AnyQpOfThePdMayUseIt) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_EQ(write_through_another_qp(), IBV_WC_SUCCESS);
}

TEST_P(R25Type1, RemoteInvalidateIsRefused) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_NE(remote_invalidate(rkey_), IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Types, R25Type1, testing::Values(IBV_MW_TYPE_1), [](const auto&) { return "Type1"; });

// ---- Type 2 only: bound to a QP, invalidated before it is bound again.

class R25Type2 : public R25Windows {
 protected:
  ibv_wc_status local_invalidate(u32 rkey) {
    Send send;
    send.wr_id = 70;
    send.opcode = IBV_WR_LOCAL_INV;
    send.imm = rkey;
    if (owner().post(send).error != 0) return IBV_WC_GENERAL_ERR;
    return status_of(owner().sent());
  }
};

TEST_P(R25Type2, LocalInvalidateMakesStale) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  ASSERT_EQ(write(rkey_), IBV_WC_SUCCESS);
  ASSERT_EQ(local_invalidate(rkey_), IBV_WC_SUCCESS);
  EXPECT_EQ(write(rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Type2, BindAgainAfterInvalidate) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  const u32 old = rkey_;
  ASSERT_EQ(local_invalidate(rkey_), IBV_WC_SUCCESS);
  bind_.address += 4096;
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_NE(rkey_, old);
  EXPECT_EQ(write(rkey_), IBV_WC_SUCCESS);
  EXPECT_EQ(access(IBV_WR_RDMA_WRITE, bind_.address, 8, old), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Type2, BindWhileBoundIsRefused) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  expect_refused(bind_);
}

TEST_P(R25Type2, BindOfNothingIsRefused) {
  bind_.length = 0;
  expect_refused(bind_);
}

TEST_P(R25Type2, LocalInvalidateOfAnUnknownKey) {
  const ibv_wc_status status = local_invalidate(rkey_ ^ 0x5a5a5a00);
  EXPECT_TRUE(status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_MW_BIND_ERR)
      << ibv_wc_status_str(status);
}

TEST_P(R25Type2, RemoteInvalidate) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  ASSERT_EQ(remote_invalidate(rkey_), IBV_WC_SUCCESS);
  const auto wcs = owner().received();
  expect_wc(wcs, 1, IBV_WC_SUCCESS);
  if (wcs.empty()) return;
  EXPECT_TRUE(wcs[0].wc_flags & IBV_WC_WITH_INV);
  EXPECT_EQ(wcs[0].invalidated_rkey, rkey_);
  EXPECT_EQ(write(rkey_), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Type2, RemoteInvalidateOfAnUnknownKey) {
  const ibv_wc_status status = remote_invalidate(rkey_ ^ 0x5a5a5a00);
  EXPECT_TRUE(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR || status == IBV_WC_REM_INV_REQ_ERR)
      << ibv_wc_status_str(status);
  EXPECT_EQ(owner().state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
}

// Bound on one QP, it is closed to the others of the same PD.
TEST_P(R25Type2, OnlyTheQpThatBoundIt) {
  ASSERT_EQ(bind(bind_), IBV_WC_SUCCESS);
  EXPECT_EQ(write_through_another_qp(), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(R25Type2, Type1CallIsRefused) {
  const MadeMw bound = b().bind_mw(owner().qp, bind_, 50);
  if (bound.error == 0) EXPECT_NE(status_of(owner().sent()), IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Types, R25Type2, testing::Values(IBV_MW_TYPE_2), [](const auto&) { return "Type2"; });

}  // namespace
}  // namespace conformance
