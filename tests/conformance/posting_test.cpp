// Rows 3, 4 and 20: posting to full queues, in every state, and inline.
#include "support.h"

namespace conformance {
namespace {

// Posts one list of `count` until the queue refuses; the list is longer than any queue here.
std::vector<Recv> many_receives(const Buffer& buffer, u32 count) {
  std::vector<Recv> list;
  for (u32 i = 0; i < count; ++i) list.push_back({100 + i, {buffer.sge(i * 8, 8)}});
  return list;
}

class R03Full : public Conformance {};

// The send queue is full while the peer has no receive; then `accepted` sends must all arrive.
void fill_send_queue(bool as_one_list) {
  Spec spec;
  spec.cap = {7, 500, 2, 2, 0};
  spec.cq_entries = 1000;
  spec.min_rnr_timer = 24;  // 41 ms
  Pair pair(end_a(), end_b(), spec);
  const u32 granted = pair.a.cap.max_send_wr;
  ASSERT_GE(granted, 7u);
  std::vector<Send> list;
  for (u32 i = 0; i < 4 * granted + 64; ++i) list.push_back(send_wr(i, {pair.a.buffer.sge(0, 8)}));
  u32 accepted = 0;
  Posted posted;
  if (as_one_list) {
    posted = pair.a.post(list);
    accepted = static_cast<u32>(posted.bad);
  } else {
    while (accepted < list.size() && (posted = pair.a.post(list[accepted])).error == 0) ++accepted;
    EXPECT_EQ(posted.bad, 0);
  }
  EXPECT_EQ(posted.error, ENOMEM);
  ASSERT_GE(static_cast<i32>(accepted), static_cast<i32>(granted));
  ASSERT_LT(accepted, list.size());
  ASSERT_EQ(pair.b.receive(many_receives(pair.b.buffer, accepted + 1)).error, 0);
  const auto wcs = pair.a.sent(accepted, patience(20000));
  ASSERT_EQ(wcs.size(), accepted) << "earlier requests of the list were not posted";
  for (u32 i = 0; i < accepted; ++i) EXPECT_EQ(wcs[i].wr_id, i);
  EXPECT_EQ(pair.b.received(accepted).size(), accepted);
  EXPECT_TRUE(pair.b.received(1, silence()).empty()) << "the refused one was sent as well";
}

TEST_F(R03Full, SendQueueOneByOne) { fill_send_queue(false); }
TEST_F(R03Full, SendQueueAsOneList) { fill_send_queue(true); }

TEST_F(R03Full, SendQueueIsUsableAgainAfterPolling) {
  Spec spec;
  spec.cap = {4, 64, 1, 1, 0};
  Pair pair(a(), b(), spec);
  for (int round = 0; round < 40; ++round) {
    ASSERT_EQ(pair.b.receive(1, 0, 8).error, 0);
    ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 8)})).error, 0) << "round " << round;
    expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
    expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
  }
}

// Fills an empty receive queue or SRQ, then receives as many messages as were accepted.
void fill_receive_queue(bool srq, bool as_one_list) {
  Spec spec;
  spec.cap = {500, 7, 2, 2, 0};
  spec.cq_entries = 1000;
  spec.srq = srq;
  Pair pair(end_a(), end_b(), spec);
  const u32 granted = srq ? end_b().query_srq(pair.b.srq).max_wr : pair.b.cap.max_recv_wr;
  ASSERT_GE(granted, 7u);
  const auto list = many_receives(pair.b.buffer, 4 * granted + 64);
  u32 accepted = 0;
  Posted posted;
  if (as_one_list) {
    posted = pair.b.receive(list);
    accepted = static_cast<u32>(posted.bad);
  } else {
    while (accepted < list.size() && (posted = pair.b.receive({list[accepted]})).error == 0) ++accepted;
    EXPECT_EQ(posted.bad, 0);
  }
  EXPECT_EQ(posted.error, ENOMEM);
  ASSERT_GE(static_cast<i32>(accepted), static_cast<i32>(granted));
  ASSERT_LT(accepted, list.size());
  std::vector<Send> sends;
  for (u32 i = 0; i < accepted; ++i) sends.push_back(send_wr(i, {pair.a.buffer.sge(0, 8)}));
  ASSERT_EQ(pair.a.post(sends).error, 0);
  const auto wcs = pair.b.received(accepted, patience(20000));
  ASSERT_EQ(wcs.size(), accepted);
  for (u32 i = 0; i < accepted; ++i) EXPECT_EQ(wcs[i].wr_id, 100 + i) << "receives are used in the order of posting";
}

TEST_F(R03Full, ReceiveQueueOneByOne) { fill_receive_queue(false, false); }
TEST_F(R03Full, ReceiveQueueAsOneList) { fill_receive_queue(false, true); }
TEST_F(R03Full, SharedReceiveQueueOneByOne) { fill_receive_queue(true, false); }
TEST_F(R03Full, SharedReceiveQueueAsOneList) { fill_receive_queue(true, true); }

// A list of three whose middle is bad: the first is carried out, the third is not, bad_wr is the second.
void middle_is_bad(const Pair& pair, const Send& bad) {
  ASSERT_EQ(pair.b.receive(many_receives(pair.b.buffer, 3)).error, 0);
  const Send good = send_wr(1, {pair.a.buffer.sge(0, 8)});
  const Posted posted = pair.a.post({good, bad, good});
  EXPECT_EQ(posted.error, EINVAL);
  EXPECT_EQ(posted.bad, 1);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.a.sent(1, silence()).empty());
  EXPECT_EQ(pair.b.received(2, silence()).size(), 1u);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
}

TEST_F(R03Full, TooManySgesInSend) {
  Pair pair(a(), b());
  middle_is_bad(pair, send_wr(2, std::vector<ibv_sge>(pair.a.cap.max_send_sge + 1, pair.a.buffer.sge(0, 4))));
}

TEST_F(R03Full, TooManyInlineBytes) {
  Spec spec;
  spec.cap.max_inline_data = 64;
  Pair pair(a(), b(), spec);
  Send bad = send_wr(2, {pair.a.buffer.sge(0, pair.a.cap.max_inline_data + 1)});
  bad.flags |= IBV_SEND_INLINE;
  middle_is_bad(pair, bad);
}

TEST_F(R03Full, TooManyInlineBytesOverSeveralSges) {
  Spec spec;
  spec.cap.max_inline_data = 64;
  Pair pair(a(), b(), spec);
  Send bad = send_wr(2, {pair.a.buffer.sge(0, pair.a.cap.max_inline_data), pair.a.buffer.sge(0, 1)});
  bad.flags |= IBV_SEND_INLINE;
  middle_is_bad(pair, bad);
}

// An operation that the QP cannot do is an immediate error (IBTA 10.8.3), or a Local QP Operation Error where the
// adapter looks only when it carries out the request. Never is it done, and never is there silence.
void is_refused(const Pair& pair, const Send& bad) {
  const Posted posted = pair.a.post(bad);
  if (posted.error != 0) {
    EXPECT_EQ(posted.error, EINVAL);
    EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
  } else {
    expect_wc(pair.a.sent(), bad.wr_id, IBV_WC_LOC_QP_OP_ERR);
  }
}

TEST_F(R03Full, UnknownOpcode) {
  Pair pair(a(), b());
  Send bad = send_wr(2, {pair.a.buffer.sge(0, 8)});
  bad.opcode = static_cast<ibv_wr_opcode>(77);
  is_refused(pair, bad);
}

TEST_F(R03Full, ReadOnUc) {
  Spec spec;
  spec.type = IBV_QPT_UC;
  Pair uc(a(), b(), spec);
  is_refused(uc, rdma_wr(2, IBV_WR_RDMA_READ, {uc.a.buffer.sge(0, 8)}, uc.b.buffer.address, uc.b.buffer.rkey));
}

TEST_F(R03Full, AtomicOnUc) {
  Spec spec;
  spec.type = IBV_QPT_UC;
  Pair uc(a(), b(), spec);
  is_refused(
      uc, atomic_wr(2, IBV_WR_ATOMIC_FETCH_AND_ADD, uc.a.buffer.sge(0, 8), uc.b.buffer.address, uc.b.buffer.rkey, 1));
  EXPECT_EQ(b().differs(uc.b.buffer.address, 8, 0), -1);
}

void rdma_on_ud(ibv_wr_opcode opcode) {
  Spec spec;
  spec.type = IBV_QPT_UD;
  Pair ud(end_a(), end_b(), spec);
  Send bad = ud_wr(2, {ud.a.buffer.sge(0, 8)}, ud.a, ud.b);
  bad.opcode = opcode;
  is_refused(ud, bad);
}

TEST_F(R03Full, WriteOnUd) { rdma_on_ud(IBV_WR_RDMA_WRITE); }
TEST_F(R03Full, WriteImmOnUd) { rdma_on_ud(IBV_WR_RDMA_WRITE_WITH_IMM); }
TEST_F(R03Full, ReadOnUd) { rdma_on_ud(IBV_WR_RDMA_READ); }

void bad_receive_in_the_middle(bool srq) {
  Spec spec;
  spec.srq = srq;
  Pair pair(end_a(), end_b(), spec);
  const u32 most = srq ? end_b().query_srq(pair.b.srq).max_sge : pair.b.cap.max_recv_sge;
  const Recv good{1, {pair.b.buffer.sge(0, 8)}};
  const Recv bad{2, std::vector<ibv_sge>(most + 1, pair.b.buffer.sge(0, 8))};
  const Posted posted = pair.b.receive({good, bad, good});
  EXPECT_EQ(posted.error, EINVAL);
  EXPECT_EQ(posted.bad, 1);
  ASSERT_EQ(pair.a.post(send_wr(3, {pair.a.buffer.sge(0, 8)})).error, 0);
  expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
}

TEST_F(R03Full, TooManySgesInReceive) { bad_receive_in_the_middle(false); }
TEST_F(R03Full, TooManySgesInSharedReceive) { bad_receive_in_the_middle(true); }

TEST_F(R03Full, ReceiveOnAQpWithAnSrq) {
  Spec spec;
  spec.srq = true;
  Pair pair(a(), b(), spec);
  EXPECT_EQ(a().post_recv(pair.a.qp, {{1, {pair.a.buffer.sge(0, 8)}}}).error, EINVAL);
}

TEST_F(R03Full, BadWrOfAReceiveOnAQpWithAnSrq) {
  Spec spec;
  spec.srq = true;
  Pair pair(a(), b(), spec);
  EXPECT_EQ(a().post_recv(pair.a.qp, {{1, {pair.a.buffer.sge(0, 8)}}}).bad, 0);
}

TEST_F(R03Full, BuilderOnAFullQueuePostsNothing) {
  Spec spec;
  spec.cap = {7, 500, 2, 2, 0};
  spec.min_rnr_timer = 24;
  spec.send_ops = IBV_QP_EX_WITH_SEND;
  Pair pair(a(), b(), spec);
  const std::vector<Send> too_many(4 * pair.a.cap.max_send_wr + 64, send_wr(1, {pair.a.buffer.sge(0, 8)}));
  EXPECT_NE(a().post_builder(pair.a.qp, too_many).error, 0);
  ASSERT_EQ(pair.b.receive(many_receives(pair.b.buffer, 8)).error, 0);
  EXPECT_TRUE(pair.b.received(1, silence()).empty()) << "ibv_wr_complete failed, so nothing may be sent";
  ASSERT_EQ(a().post_builder(pair.a.qp, {send_wr(2, {pair.a.buffer.sge(0, 8)})}).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
}

TEST_F(R03Full, BuilderWithTooMuch) {
  Spec spec;
  spec.cap.max_inline_data = 64;
  spec.send_ops = IBV_QP_EX_WITH_SEND;
  Pair pair(a(), b(), spec);
  ASSERT_EQ(pair.b.receive(many_receives(pair.b.buffer, 2)).error, 0);
  Send fat = send_wr(1, {pair.a.buffer.sge(0, pair.a.cap.max_inline_data + 1)});
  fat.flags |= IBV_SEND_INLINE;
  EXPECT_NE(a().post_builder(pair.a.qp, {fat}).error, 0);
  const Send wide = send_wr(1, std::vector<ibv_sge>(pair.a.cap.max_send_sge + 1, pair.a.buffer.sge(0, 4)));
  EXPECT_NE(a().post_builder(pair.a.qp, {wide}).error, 0);
  EXPECT_TRUE(pair.b.received(1, silence()).empty());
  ASSERT_EQ(a().post_builder(pair.a.qp, {send_wr(2, {pair.a.buffer.sge(0, 8)})}).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
}

// ---- Row 4

struct StateCase {
  ibv_qp_type type;
  bool builder;
};

class R04States : public Conformance, public testing::WithParamInterface<StateCase> {
 protected:
  void SetUp() override {
    Spec spec;
    spec.type = GetParam().type;
    spec.connect = false;
    if (GetParam().builder) spec.send_ops = IBV_QP_EX_WITH_SEND;
    pair_ = std::make_unique<Pair>(a(), b(), spec);
  }

  Posted post(u64 wr_id) {
    Send send = send_wr(wr_id, {pair_->a.buffer.sge(0, 8)});
    if (GetParam().type == IBV_QPT_UD) send = ud_wr(wr_id, send.sges, pair_->a, pair_->b);
    return GetParam().builder ? a().post_builder(pair_->a.qp, {send}) : pair_->a.post(send);
  }

  // UD needs its address before the QP is up.
  void make_ah() {
    if (GetParam().type == IBV_QPT_UD)
      pair_->a.ah = a().create_ah(pair_->a.pd, address_to(pair_->a.info, pair_->b.info, false)).id;
  }

  void step_to(ibv_qp_state state) {
    Pair& p = *pair_;
    if (state >= IBV_QPS_INIT) must(modify(p.a, to_init(p.spec, p.a.info)), "INIT");
    if (state >= IBV_QPS_RTR) must(modify(p.a, to_rtr(p.spec, p.a.info, p.b.info, p.b.qpn)), "RTR");
    if (state >= IBV_QPS_RTS) must(modify(p.a, to_rts(p.spec)), "RTS");
  }

  void refused_in(ibv_qp_state state) {
    make_ah();
    step_to(state);
    EXPECT_EQ(post(7).error, EINVAL);
    EXPECT_EQ(pair_->a.state(), state);
    EXPECT_TRUE(pair_->a.sent(1, silence(30)).empty());
  }

  std::unique_ptr<Pair> pair_;
};

TEST_P(R04States, Reset) { refused_in(IBV_QPS_RESET); }
TEST_P(R04States, Init) { refused_in(IBV_QPS_INIT); }
TEST_P(R04States, Rtr) { refused_in(IBV_QPS_RTR); }

// What was refused must not be sent later, when the QP comes to RTS.
TEST_P(R04States, RefusedIsForgotten) {
  make_ah();
  Pair& p = *pair_;
  must(modify(p.b, to_init(p.spec, p.b.info)), "INIT");
  must(modify(p.b, to_rtr(p.spec, p.b.info, p.a.info, p.a.qpn)), "RTR");
  ASSERT_EQ(p.b.receive({{1, {p.b.buffer.sge(0, 64)}}, {2, {p.b.buffer.sge(64, 64)}}}).error, 0);
  step_to(IBV_QPS_RTR);
  post(7);
  must(modify(p.a, to_rts(p.spec)), "RTS");
  ASSERT_EQ(post(8).error, 0);
  expect_wc(p.a.sent(), 8, IBV_WC_SUCCESS);
  EXPECT_TRUE(p.a.sent(1, silence()).empty());
  EXPECT_EQ(p.b.received(2, silence()).size(), 1u);
}

TEST_P(R04States, ErrorFlushes) {
  make_ah();
  step_to(IBV_QPS_RTS);
  ASSERT_EQ(modify_state(pair_->a, IBV_QPS_ERR), 0);
  EXPECT_EQ(post(7).error, 0);
  expect_wc(pair_->a.sent(), 7, IBV_WC_WR_FLUSH_ERR);
}

// In SQD a request is taken and waits for RTS.
TEST_P(R04States, DrainedQueueWaits) {
  make_ah();
  Pair& p = *pair_;
  must(modify(p.b, to_init(p.spec, p.b.info)), "INIT");
  must(modify(p.b, to_rtr(p.spec, p.b.info, p.a.info, p.a.qpn)), "RTR");
  ASSERT_EQ(p.b.receive(1, 0, 64).error, 0);
  step_to(IBV_QPS_RTS);
  ASSERT_EQ(modify_state(p.a, IBV_QPS_SQD), 0);
  ASSERT_EQ(post(7).error, 0);
  EXPECT_TRUE(p.a.sent(1, silence()).empty());
  ASSERT_EQ(modify_state(p.a, IBV_QPS_RTS), 0);
  expect_wc(p.a.sent(), 7, IBV_WC_SUCCESS);
  expect_wc(p.b.received(), 1, IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Send, R04States,
                         testing::Values(StateCase{IBV_QPT_RC, false}, StateCase{IBV_QPT_RC, true},
                                         StateCase{IBV_QPT_UC, false}, StateCase{IBV_QPT_UC, true},
                                         StateCase{IBV_QPT_UD, false}, StateCase{IBV_QPT_UD, true}),
                         [](const auto& test) {
                           const char* type = test.param.type == IBV_QPT_RC   ? "Rc"
                                              : test.param.type == IBV_QPT_UC ? "Uc"
                                                                              : "Ud";
                           return std::string(type) + (test.param.builder ? "Builder" : "PostSend");
                         });

class R04More : public Conformance {};

// bad_wr also names the culprit when the state is wrong.
TEST_F(R04More, BadWrWhenTheStateForbids) {
  Spec spec;
  spec.connect = false;
  Pair pair(a(), b(), spec);
  EXPECT_EQ(pair.a.post(send_wr(1, {pair.a.buffer.sge(0, 8)})).bad, 0);
}

TEST_F(R04More, ReceiveInReset) {
  Spec spec;
  spec.connect = false;
  Pair pair(a(), b(), spec);
  EXPECT_EQ(pair.a.receive(1, 0, 8).error, EINVAL);
}

TEST_F(R04More, ReceiveInInitIsKept) {
  Spec spec;
  spec.connect = false;
  Pair pair(a(), b(), spec);
  must(modify(pair.b, to_init(spec, pair.b.info)), "INIT");
  ASSERT_EQ(pair.b.receive(1, 0, 64).error, 0);
  must(modify(pair.b, to_rtr(spec, pair.b.info, pair.a.info, pair.a.qpn)), "RTR");
  must(modify(pair.a, to_init(spec, pair.a.info)), "INIT");
  must(modify(pair.a, to_rtr(spec, pair.a.info, pair.b.info, pair.b.qpn)), "RTR");
  must(modify(pair.a, to_rts(spec)), "RTS");
  ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 64)})).error, 0);
  expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
}

TEST_F(R04More, ReceiveInErrorFlushes) {
  Pair pair(a(), b());
  ASSERT_EQ(pair.a.receive(1, 0, 8).error, 0);
  ASSERT_EQ(modify_state(pair.a, IBV_QPS_ERR), 0);
  expect_wc(pair.a.received(), 1, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(pair.a.receive(2, 0, 8).error, 0);
  expect_wc(pair.a.received(), 2, IBV_WC_WR_FLUSH_ERR);
}

// RESET forgets everything that was posted, without completions.
TEST_F(R04More, ResetForgetsTheQueues) {
  Spec spec;
  spec.min_rnr_timer = 24;
  Pair pair(a(), b(), spec);
  ASSERT_EQ(pair.a.receive(1, 0, 8).error, 0);
  ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 8)})).error, 0);
  ASSERT_EQ(modify_state(pair.a, IBV_QPS_RESET), 0);
  EXPECT_TRUE(pair.a.sent(1, silence()).empty());
  EXPECT_TRUE(pair.a.received(1, silence()).empty());
  ASSERT_EQ(modify_state(pair.b, IBV_QPS_RESET), 0);
  pair.connect();
  expect_traffic(pair);
}

// ---- Row 20

class R20Inline : public Conformance, public testing::WithParamInterface<ibv_qp_type> {
 protected:
  Spec spec(u32 bytes) {
    Spec wanted;
    wanted.type = GetParam();
    wanted.cap.max_inline_data = bytes;
    wanted.send_ops = IBV_QP_EX_WITH_SEND;
    if (GetParam() != IBV_QPT_UD) wanted.send_ops |= IBV_QP_EX_WITH_RDMA_WRITE;
    return wanted;
  }
  u32 room() const { return GetParam() == IBV_QPT_UD ? 40 : 0; }

  Send inline_send(const Pair& pair, std::vector<ibv_sge> sges) {
    Send send = GetParam() == IBV_QPT_UD ? ud_wr(1, sges, pair.a, pair.b) : send_wr(1, sges);
    send.flags |= IBV_SEND_INLINE;
    return send;
  }
};

TEST_P(R20Inline, AtLeast220AreGranted) {
  Pair pair(a(), b(), spec(220));
  EXPECT_GE(pair.a.cap.max_inline_data, 220u);
}

TEST_P(R20Inline, GrantedIsUsable) {
  Pair pair(a(), b(), spec(220));
  const u32 size = std::min<u32>(pair.a.cap.max_inline_data, 1024);
  a().fill(pair.a.buffer.address, size, 9);
  ASSERT_EQ(pair.b.receive(2, 0, 4096).error, 0);
  ASSERT_EQ(pair.a.post(inline_send(pair, {pair.a.buffer.sge(0, size)})).error, 0);
  a().set(pair.a.buffer.address, size, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.received(), 2, IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(pair.b.buffer.address + room(), size, 9), -1);
}

TEST_P(R20Inline, BuilderGathersFromSeveralPlaces) {
  Pair pair(a(), b(), spec(220));
  a().fill(pair.a.buffer.address, 200, 9);
  const std::vector<ibv_sge> parts = {pair.a.buffer.sge(0, 13), pair.a.buffer.sge(13, 0), pair.a.buffer.sge(13, 100),
                                      pair.a.buffer.sge(113, 87)};
  ASSERT_EQ(pair.b.receive(2, 0, 4096).error, 0);
  ASSERT_EQ(a().post_builder(pair.a.qp, {inline_send(pair, parts)}).error, 0);
  a().set(pair.a.buffer.address, 200, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  const auto wcs = pair.b.received();
  expect_wc(wcs, 2, IBV_WC_SUCCESS);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].byte_len, 200 + room());
  EXPECT_EQ(b().mismatch(pair.b.buffer.address + room(), 200, 9), -1);
}

// Inline data need no registration: the lkey is not looked at.
TEST_P(R20Inline, UnregisteredMemory) {
  Pair pair(a(), b(), spec(220));
  const u64 memory = a().alloc_memory(4096);
  a().fill(memory, 64, 4);
  ASSERT_EQ(pair.b.receive(2, 0, 4096).error, 0);
  ASSERT_EQ(pair.a.post(inline_send(pair, {{memory, 64, 0xdeadbeef}})).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.received(), 2, IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(pair.b.buffer.address + room(), 64, 4), -1);
}

INSTANTIATE_TEST_SUITE_P(Types, R20Inline, testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), [](const auto& test) {
  return test.param == IBV_QPT_RC ? "Rc" : test.param == IBV_QPT_UC ? "Uc" : "Ud";
});

class R20More : public Conformance {};

// The data are taken at posting, even when they travel much later.
TEST_F(R20More, OverwrittenWhileWaiting) {
  Spec spec;
  spec.cap.max_inline_data = 128;
  spec.min_rnr_timer = 24;
  Pair pair(a(), b(), spec);
  a().fill(pair.a.buffer.address, 128, 7);
  Send send = send_wr(1, {pair.a.buffer.sge(0, 128)});
  send.flags |= IBV_SEND_INLINE;
  ASSERT_EQ(pair.a.post(send).error, 0);
  a().set(pair.a.buffer.address, 128, 0xee);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(pair.b.receive(2, 0, 128).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.received(), 2, IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(pair.b.buffer.address, 128, 7), -1);
}

TEST_F(R20More, RdmaWrite) {
  Spec spec;
  spec.cap.max_inline_data = 128;
  Pair pair(a(), b(), spec);
  a().fill(pair.a.buffer.address, 128, 7);
  Send write = rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 64), pair.a.buffer.sge(64, 64)},
                       pair.b.buffer.address + 3, pair.b.buffer.rkey);
  write.flags |= IBV_SEND_INLINE;
  ASSERT_EQ(pair.a.post(write).error, 0);
  a().set(pair.a.buffer.address, 128, 0xee);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(pair.b.buffer.address + 3, 128, 7), -1);
}

TEST_F(R20More, TooMuchToAskFor) {
  Spec spec;
  spec.connect = false;
  Pair pair(a(), b(), spec);
  QpSpec greedy{IBV_QPT_RC, pair.a.pd, pair.a.send_cq, pair.a.recv_cq, 0, {1, 1, 1, 1, 1 << 20}, 0, 0};
  const MadeQp qp = a().create_qp(greedy);
  EXPECT_EQ(qp.id, 0u);
  EXPECT_TRUE(qp.error == EINVAL || qp.error == ENOMEM) << qp.error;
}

}  // namespace
}  // namespace conformance
