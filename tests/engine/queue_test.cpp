// Retries, flushing, events, limits: what happens around the bytes.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>

#include "engine/world.h"

namespace softib::test {
namespace {

using Clock = std::chrono::steady_clock;

class Queue : public ::testing::Test {
 public:
  void SetUp() override {
    scq = world.cq();
    rcq = world.cq();
    peer_rcq = world.cq(256, true);
    a = world.qp(1, QpType::rc, scq, rcq);
    b = world.qp(2, QpType::rc, world.cq(), peer_rcq);
    world.connect(a, b);
    mine = world.memory(1, 65536);
    theirs = world.memory(2, 65536);
    lkey = world.key(*mine, all_access);
    rkey = world.key(*theirs, all_access);
  }
  Send message(u32 length = 64, u64 id = 1) {
    Send send;
    send.wr_id = id;
    send.sges = {{mine->address(), length, lkey}};
    return send;
  }
  Sge room(u32 length = 64) { return {theirs->address(), length, rkey}; }
  static u32 status(WcStatus s) { return static_cast<u32>(s); }
  bool channel_has_event() {
    pollfd p{world.channel_read_end(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  }
  void drain_channel() {
    char buffer[64];
    while (channel_has_event()) ASSERT_GT(::read(world.channel_read_end(), buffer, 16), 0);
  }

  World world;
  u32 scq, rcq, peer_rcq, a, b, lkey, rkey;
  std::unique_ptr<Memory> mine, theirs;
};

TEST_F(Queue, PostingInTheWrongStateIsTakenBack) {
  for (QpState state : {QpState::reset, QpState::init, QpState::rtr}) {
    world.record(a).state = state;
    post(world, a, message());
    EXPECT_EQ(world.ring(a), EINVAL);
    hca::Ring ring(world.segment(), world.record(a).sq_ring, world.record(a).sq_mask);
    EXPECT_EQ(ring.producer(), ring.consumer());
  }
}

TEST_F(Queue, AnotherContextsQpIsNotFound) {
  EXPECT_EQ(world.engine(1).doorbell(a, verbs_context + 1), EINVAL);
  EXPECT_EQ(world.engine(1).doorbell(0, verbs_context), EINVAL);
  EXPECT_EQ(world.engine(1).doorbell(0xffff'ffff, verbs_context), EINVAL);
}

TEST_F(Queue, ReceiveThatComesLateIsFoundByTheRetry) {
  world.record(a).rnr_retry = world.record(a).requester.rnr_left = 7;
  world.record(b).min_rnr_timer = 14;  // 1.28 ms
  auto start = Clock::now();
  post(world, a, message());
  EXPECT_EQ(world.ring(a), 0);
  EXPECT_TRUE(world.poll(scq).empty());
  post_receive(world, b, 3, {room()});
  auto done = world.wait_for(scq, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, status(WcStatus::success));
  EXPECT_GE(Clock::now() - start, std::chrono::microseconds(1280));
  EXPECT_EQ(world.poll(peer_rcq).size(), 1U);
}

TEST_F(Queue, RnrRetriesRunOutAfterTheirTimers) {
  world.record(b).min_rnr_timer = 12;  // 640 us, and two retries
  auto start = Clock::now();
  post(world, a, message(64, 1));
  post(world, a, message(64, 2));
  EXPECT_EQ(world.ring(a), 0);
  auto done = world.wait_for(scq, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_GE(Clock::now() - start, std::chrono::microseconds(2 * 640));
  EXPECT_EQ(done[0].status, status(WcStatus::rnr_retry_exc_err));
  EXPECT_EQ(done[1].status, status(WcStatus::wr_flush_err));
}

TEST_F(Queue, SilentPeerEndsInRetryExceeded) {
  world.record(b).state = QpState::reset;
  auto start = Clock::now();
  post(world, a, message());
  EXPECT_EQ(world.ring(a), 0);
  auto done = world.wait_for(scq, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, status(WcStatus::retry_exc_err));
  EXPECT_EQ(done[0].vendor_err, 0x81U);
  EXPECT_GE(Clock::now() - start, std::chrono::nanoseconds(3 * (4096ULL << 8)));
}

TEST_F(Queue, LostConditions) {
  struct Case {
    const char* what;
    void (*change)(Queue&);
  };
  const Case cases[] = {
      {"connected elsewhere", [](Queue& q) { q.world.record(q.b).dest_qpn = 99; }},
      {"P_Key of another partition", [](Queue& q) { q.world.record(q.b).pkey = 0x8001; }},
      {"two limited members", [](Queue& q) { q.world.record(q.a).pkey = q.world.record(q.b).pkey = 0x7fff; }},
      {"port down", [](Queue& q) { q.world.segment().ports[2].state = ipc::PortState::down; }},
      {"LID of nobody", [](Queue& q) { q.world.record(q.a).av.port = 0; }},
      {"PSNs don't agree", [](Queue& q) { q.world.record(q.b).responder.expected_psn = 12; }},
      {"QP destroyed", [](Queue& q) { q.world.record(q.b).state = QpState::destroyed; }},
  };
  for (const Case& c : cases) {
    auto restore = std::pair{world.record(a).pkey, world.record(b).pkey};
    c.change(*this);
    post(world, a, message());
    EXPECT_EQ(world.ring(a), 0);
    auto done = world.wait_for(scq, 1);
    ASSERT_EQ(done.size(), 1U) << c.what;
    EXPECT_EQ(done[0].status, status(WcStatus::retry_exc_err)) << c.what;
    world.segment().ports[2].state = ipc::PortState::active;
    std::tie(world.record(a).pkey, world.record(b).pkey) = restore;
    world.record(a).state = QpState::reset;
    world.engine(1).qp_modified(a, QpState::err, QpState::reset);
    world.connect(a, b);
    world.record(a).requester.next_psn = world.record(b).responder.expected_psn = 0;
    world.engine(1).qp_modified(a, QpState::rtr, QpState::rts);
  }
}

TEST_F(Queue, TooLongForTheReceive) {
  post_receive(world, b, 3, {room(10)});
  post_receive(world, b, 4, {room(10)});
  post(world, a, message(11));
  EXPECT_EQ(world.ring(a), 0);
  auto done = world.wait_for(scq, 1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, status(WcStatus::rem_inv_req_err));
  auto got = world.wait_for(peer_rcq, 2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].status, status(WcStatus::loc_len_err));
  EXPECT_EQ(got[1].status, status(WcStatus::wr_flush_err));
  EXPECT_EQ(world.record(b).state.load(), QpState::err);
}

TEST_F(Queue, BadReceiveKey) {
  post_receive(world, b, 3, {{theirs->address(), 64, 0x7fff'ff11}});
  post(world, a, message());
  EXPECT_EQ(world.ring(a), 0);
  EXPECT_EQ(world.wait_for(scq, 1).at(0).status, status(WcStatus::rem_op_err));
  EXPECT_EQ(world.wait_for(peer_rcq, 1).at(0).status, status(WcStatus::loc_prot_err));
}

TEST_F(Queue, ReceivesPostedInErrorAreFlushed) {
  world.record(b).state = QpState::err;
  world.engine(2).qp_modified(b, QpState::rts, QpState::err);
  post_receive(world, b, 8, {room()});
  auto got = world.wait_for(peer_rcq, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].status, status(WcStatus::wr_flush_err));
  EXPECT_EQ(got[0].wr_id, 8U);
}

TEST_F(Queue, ModifyToErrorFlushesAWaitingQueue) {
  world.record(a).rnr_retry = world.record(a).requester.rnr_left = 7;
  world.record(b).min_rnr_timer = 31;
  for (u64 i = 0; i < 5; ++i) post(world, a, message(8, i));
  EXPECT_EQ(world.ring(a), 0);
  world.record(a).state = QpState::err;
  world.engine(1).qp_modified(a, QpState::rts, QpState::err);
  auto done = world.poll(scq);
  ASSERT_EQ(done.size(), 5U);
  for (u64 i = 0; i < 5; ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(done[i].status, status(WcStatus::wr_flush_err));
  }
}

TEST_F(Queue, UnsignaledSuccessIsSilent) {
  post_receive(world, b, 1, {room()});
  post_receive(world, b, 2, {room()});
  Send quiet = message(8, 1);
  quiet.flags = 0;
  post(world, a, quiet);
  post(world, a, message(8, 2));
  EXPECT_EQ(world.ring(a), 0);
  auto done = world.poll(scq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 2U);
}

TEST_F(Queue, CompletionEventsFireOnceWhenArmed) {
  for (u64 i = 0; i < 4; ++i) post_receive(world, b, i, {room()});
  post(world, a, message());
  world.ring(a);
  EXPECT_FALSE(channel_has_event());  // not armed
  EXPECT_EQ(world.engine(2).arm_cq(peer_rcq, verbs_context, false), 0);
  EXPECT_FALSE(channel_has_event());  // what waits already fires nothing
  post(world, a, message());
  world.ring(a);
  EXPECT_TRUE(channel_has_event());
  drain_channel();
  post(world, a, message());
  world.ring(a);
  EXPECT_FALSE(channel_has_event());
  EXPECT_EQ(world.engine(2).arm_cq(peer_rcq, verbs_context, true), 0);
  post(world, a, message());
  world.ring(a);
  EXPECT_FALSE(channel_has_event());  // not solicited
  post_receive(world, b, 9, {room()});
  Send solicited = message();
  solicited.flags |= hca::send_solicited;
  post(world, a, solicited);
  world.ring(a);
  EXPECT_TRUE(channel_has_event());
}

TEST_F(Queue, OverrunStopsTheCqAndItsQps) {
  u32 tiny = world.cq(4);
  u32 qa = world.qp(1, QpType::rc, tiny, tiny);
  u32 qb = world.qp(2, QpType::rc, world.cq(), world.cq());
  world.connect(qa, qb);
  Send write = message(8);
  write.opcode = WrOpcode::rdma_write;
  write.remote_address = theirs->address();
  write.rkey = rkey;
  for (int i = 0; i < 5; ++i) post(world, qa, write);
  EXPECT_EQ(world.ring(qa), 0);
  EXPECT_EQ(world.poll(tiny).size(), 3U);
  EXPECT_EQ(world.record(qa).state.load(), QpState::err);
  EXPECT_TRUE(world.daemon(1).saw(ipc::ObjectKind::cq, tiny, hca::AsyncEvent::cq_err));
  EXPECT_TRUE(world.daemon(1).saw(ipc::ObjectKind::qp, qa, hca::AsyncEvent::qp_fatal));
}

TEST_F(Queue, SharedReceiveQueueAndItsLimit) {
  u32 srq = world.srq();
  u32 qb = world.qp(2, QpType::rc, world.cq(), peer_rcq, srq);
  u32 qa = world.qp(1, QpType::rc, scq, rcq);
  world.connect(qa, qb);
  for (u64 i = 0; i < 4; ++i) post_srq_receive(world, srq, 100 + i, {room()});
  world.segment().srqs[srq].limit = 3;
  for (int i = 0; i < 3; ++i) post(world, qa, message());
  EXPECT_EQ(world.ring(qa), 0);
  auto got = world.poll(peer_rcq);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[2].wr_id, 102U);
  EXPECT_EQ(world.segment().srqs[srq].limit.load(), 0U);
  auto events = world.daemon(1).events();
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](auto& e) { return e.event_type == static_cast<u32>(hca::AsyncEvent::srq_limit_reached); }),
            1);
  world.record(qb).state = QpState::err;
  world.engine(2).qp_modified(qb, QpState::rts, QpState::err);
  EXPECT_TRUE(world.daemon(2).saw(ipc::ObjectKind::qp, qb, hca::AsyncEvent::qp_last_wqe_reached));
}

TEST_F(Queue, DatagramsArriveBehindRoomForAGrh) {
  u32 ud_scq = world.cq(), ud_rcq = world.cq();
  u32 ua = world.qp(1, QpType::ud, ud_scq, ud_scq);
  u32 ub = world.qp(2, QpType::ud, ud_rcq, ud_rcq);
  std::memset(mine->data(), 0x5a, 64);
  for (bool global : {false, true}) {
    post_receive(world, ub, 1, {room(40 + 64)});
    Send send = message(64);
    send.ah = world.ah(1, 2, global);
    send.remote_qpn = ub;
    send.qkey = 0x1234;
    post(world, ua, send);
    EXPECT_EQ(world.ring(ua), 0);
    EXPECT_EQ(world.poll(ud_scq).at(0).status, status(WcStatus::success));
    auto got = world.poll(ud_rcq);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].byte_len, 104U);
    EXPECT_EQ(got[0].wc_flags & hca::wc_grh, global ? hca::wc_grh : 0U);
    EXPECT_EQ(theirs->data()[40], 0x5a);
    EXPECT_EQ(theirs->data()[103], 0x5a);
    if (global) {
      EXPECT_EQ(theirs->data()[0] >> 4, 6);
    }
  }
  // Wrong Q_Key: the sender succeeds, nobody gets it, the port counts it.
  post_receive(world, ub, 1, {room(104)});
  Send wrong = message(64);
  wrong.ah = world.ah(1, 2);
  wrong.remote_qpn = ub;
  wrong.qkey = 0x4321;
  post(world, ua, wrong);
  EXPECT_EQ(world.ring(ua), 0);
  EXPECT_EQ(world.poll(ud_scq).at(0).status, status(WcStatus::success));
  EXPECT_TRUE(world.poll(ud_rcq).empty());
  EXPECT_EQ(world.segment().ports[2].qkey_violations.load(), 1U);
  // Longer than the MTU.
  Send big = wrong;
  big.sges = {{mine->address(), 4097, lkey}};
  post(world, ua, big);
  EXPECT_EQ(world.ring(ua), 0);
  EXPECT_EQ(world.poll(ud_scq).at(0).status, status(WcStatus::loc_len_err));
  EXPECT_EQ(world.record(ua).state.load(), QpState::sqe);
}

TEST_F(Queue, WindowsBindUseInvalidateRebind) {
  u32 window = world.window(2);
  Send bind;
  bind.opcode = WrOpcode::bind_mw;
  post(world, b, bind);
  // The bind is B's own request on its own region.
  hca::Ring ring(world.segment(), world.record(b).sq_ring, world.record(b).sq_mask);
  auto* wqe = ring.at<abi::SendWqe>(ring.consumer(), sq_log2);
  auto& mw = wqe->wr.wr.mw;
  mw.addr = theirs->address() + 100;
  mw.length = 50;
  mw.mr_lkey = rkey;
  mw.mw_rkey = window;
  mw.rkey = (window & ~0xffU) | 0x55;
  mw.access = hca::access_remote_write;
  EXPECT_EQ(world.ring(b), 0);
  EXPECT_EQ(world.poll(world.record(b).send_cq).at(0).status, status(WcStatus::success));
  u32 bound = (window & ~0xffU) | 0x55;
  Send write = message(50);
  write.opcode = WrOpcode::rdma_write;
  write.remote_address = theirs->address() + 100;
  write.rkey = bound;
  post(world, a, write);
  EXPECT_EQ(world.ring(a), 0);
  EXPECT_EQ(world.poll(scq).at(0).status, status(WcStatus::success));
  EXPECT_EQ(world.segment().keys[rkey >> 8].windows.load(), 1U);
  // Invalidated by the peer's send: the window is of no use any more.
  post_receive(world, b, 1, {room()});
  Send invalidate = message(8);
  invalidate.opcode = WrOpcode::send_with_inv;
  invalidate.immediate = bound;
  post(world, a, invalidate);
  EXPECT_EQ(world.ring(a), 0);
  EXPECT_EQ(world.poll(scq).at(0).status, status(WcStatus::success));
  EXPECT_EQ(world.poll(peer_rcq).at(0).wc_flags, static_cast<u32>(hca::wc_with_inv));
  EXPECT_EQ(world.segment().keys[rkey >> 8].windows.load(), 0U);
  post(world, a, write);
  EXPECT_EQ(world.ring(a), 0);
  EXPECT_EQ(world.poll(scq).at(0).status, status(WcStatus::rem_access_err));
}

TEST_F(Queue, HostileRingsHurtNobody) {
  auto& qp = world.record(a);
  auto* head = reinterpret_cast<rxe_queue_buf*>(world.segment().arena + qp.sq_ring);
  head->producer_index = 0xffff'fff0;
  head->consumer_index = 0x1234'5678;
  head->index_mask = 0xffff'ffff;
  head->log2_elem_size = 31;
  EXPECT_EQ(world.ring(a), 0);
  auto* receive = reinterpret_cast<rxe_queue_buf*>(world.segment().arena + world.record(b).rq_ring);
  receive->producer_index = 0xdead'beef;
  auto* wqe = hca::Ring(world.segment(), world.record(b).rq_ring, world.record(b).rq_mask)
                  .at<abi::RecvWqe>(world.record(b).responder.consumer, rq_log2);
  wqe->dma.num_sge = 0xffff'ffff;
  world.record(a).state = QpState::reset;
  world.engine(1).qp_modified(a, QpState::err, QpState::reset);
  world.connect(a, b);
  post(world, a, message());
  EXPECT_EQ(world.ring(a), 0);
  EXPECT_FALSE(world.wait_for(scq, 1).empty());
}

}  // namespace
}  // namespace softib::test
