// Rows 18 and 19: completion events and overrun; and what else a CQ does.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace conformance {
namespace {

class R18Events : public Conformance {
 protected:
  static Spec spec() {
    Spec wanted;
    wanted.channel = true;
    return wanted;
  }

  static void message(const Pair& pair, bool solicited = false) {
    must(pair.b.receive(1, 0, 8).error, "ibv_post_recv");
    Send send = send_wr(2, {pair.a.buffer.sge(0, 8)});
    if (solicited) send.flags |= IBV_SEND_SOLICITED;
    must(pair.a.post(send).error, "ibv_post_send");
    expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(silence(20)));  // the receive completes a little later
  }

  static bool event_at_b(const Pair& pair, u32 timeout_ms = patience(2000)) {
    const Id cq = pair.b.end->wait_cq_event(pair.b.channel, timeout_ms);
    if (cq != 0) EXPECT_EQ(cq, pair.b.recv_cq) << "the event names another CQ";
    return cq != 0;
  }
  static bool no_event_at_b(const Pair& pair) { return pair.b.end->wait_cq_event(pair.b.channel, silence()) == 0; }
  static int arm_b(const Pair& pair, int solicited_only) { return pair.b.end->arm(pair.b.recv_cq, solicited_only); }
};

TEST_F(R18Events, OneShot) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(arm_b(pair, 0), 0);
  message(pair);
  EXPECT_TRUE(event_at_b(pair));
  message(pair);
  EXPECT_TRUE(no_event_at_b(pair)) << "an event without a new request";
  ASSERT_EQ(arm_b(pair, 0), 0);
  message(pair);
  EXPECT_TRUE(event_at_b(pair));
}

TEST_F(R18Events, NoneUnlessArmed) {
  Pair pair(a(), b(), spec());
  message(pair);
  message(pair, true);
  EXPECT_TRUE(no_event_at_b(pair));
}

// What waits in the CQ already raises no event; the next completion does.
TEST_F(R18Events, ArmedWithCompletionsWaiting) {
  Pair pair(a(), b(), spec());
  message(pair);
  message(pair);
  ASSERT_EQ(arm_b(pair, 0), 0);
  EXPECT_TRUE(no_event_at_b(pair));
  message(pair);
  EXPECT_TRUE(event_at_b(pair));
  EXPECT_EQ(pair.b.received(3).size(), 3u);
}

TEST_F(R18Events, ManyCompletionsOneEvent) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(arm_b(pair, 0), 0);
  for (int i = 0; i < 5; ++i) message(pair);
  EXPECT_TRUE(event_at_b(pair));
  EXPECT_TRUE(no_event_at_b(pair));
}

TEST_F(R18Events, ArmedTwiceOneEvent) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(arm_b(pair, 0), 0);
  ASSERT_EQ(arm_b(pair, 0), 0);
  message(pair);
  message(pair);
  EXPECT_TRUE(event_at_b(pair));
  EXPECT_TRUE(no_event_at_b(pair));
}

TEST_F(R18Events, SolicitedOnlyPassesOverOthers) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(arm_b(pair, 1), 0);
  message(pair, false);
  EXPECT_TRUE(no_event_at_b(pair));
  message(pair, true);
  EXPECT_TRUE(event_at_b(pair));
}

TEST_F(R18Events, SolicitedCountsForAnyArm) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(arm_b(pair, 0), 0);
  message(pair, true);
  EXPECT_TRUE(event_at_b(pair));
}

// A completion with an error counts as solicited.
TEST_F(R18Events, ErrorsAreSolicited) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(pair.b.receive(1, 0, 8).error, 0);
  ASSERT_EQ(arm_b(pair, 1), 0);
  must(modify_state(pair.b, IBV_QPS_ERR), "ERR");
  EXPECT_TRUE(event_at_b(pair));
  expect_wc(pair.b.received(), 1, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(R18Events, SolicitedWithImmediateToo) {
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    Pair pair(a(), b(), spec());
    ASSERT_EQ(arm_b(pair, 1), 0);
    ASSERT_EQ(pair.b.receive(1, 0, 8).error, 0);
    Send send = rdma_wr(2, opcode, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey);
    send.flags |= IBV_SEND_SOLICITED;
    ASSERT_EQ(pair.a.post(send).error, 0);
    EXPECT_TRUE(event_at_b(pair)) << name_of(opcode);
  }
}

// The solicited bit travels to the receiver; the sender's own completion is unsolicited.
TEST_F(R18Events, SendCompletionsAreUnsolicited) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(a().arm(pair.a.send_cq, 1), 0);
  message(pair, true);
  EXPECT_EQ(a().wait_cq_event(pair.a.channel, silence()), 0u);
  ASSERT_EQ(a().arm(pair.a.send_cq, 0), 0);
  message(pair, false);
  EXPECT_EQ(a().wait_cq_event(pair.a.channel, patience(2000)), pair.a.send_cq);
}

// Asked for both, the wider request holds (IBTA 11.4.2.2).
TEST_F(R18Events, AnyAfterSolicited) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(arm_b(pair, 1), 0);
  ASSERT_EQ(arm_b(pair, 0), 0);
  message(pair, false);
  EXPECT_TRUE(event_at_b(pair));
}

TEST_F(R18Events, SolicitedAfterAny) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(arm_b(pair, 0), 0);
  ASSERT_EQ(arm_b(pair, 1), 0);
  message(pair, false);
  EXPECT_TRUE(event_at_b(pair));
}

TEST_F(R18Events, TwoCqsOnOneChannel) {
  Pair pair(a(), a(), spec());
  ASSERT_EQ(a().arm(pair.a.send_cq, 0), 0);
  ASSERT_EQ(a().arm(pair.a.recv_cq, 0), 0);
  ASSERT_EQ(pair.a.receive(1, 0, 8).error, 0);
  ASSERT_EQ(pair.b.receive(1, 0, 8).error, 0);
  ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 8)})).error, 0);
  ASSERT_EQ(pair.b.post(send_wr(3, {pair.b.buffer.sge(0, 8)})).error, 0);
  const Id first = a().wait_cq_event(pair.a.channel, patience(2000));
  const Id second = a().wait_cq_event(pair.a.channel, patience(2000));
  EXPECT_EQ(std::min(first, second), std::min(pair.a.send_cq, pair.a.recv_cq));
  EXPECT_EQ(std::max(first, second), std::max(pair.a.send_cq, pair.a.recv_cq));
}

// The usual loop of a server: arm, drain, wait. No wake-up may be lost in a thousand rounds.
TEST_F(R18Events, NoneLostInALongRun) {
  Pair pair(a(), a(), spec());
  const int rounds = options().slow > 1 ? 100 : 2000;
  std::atomic<int> served{0};
  std::thread server([&] {
    while (served < rounds) {
      if (a().device()->arm(pair.b.recv_cq, 0) != 0) return;
      int drained = 0;
      while (!pair.b.received(1, 0).empty()) ++drained;
      served += drained;
      if (drained != 0 || served >= rounds) continue;
      if (a().device()->wait_cq_event(pair.b.channel, patience(10000)) == 0) return;
    }
  });
  for (int i = 0; i < rounds; ++i) {
    while (i - served > 8) std::this_thread::yield();
    ASSERT_EQ(pair.b.receive(1, 0, 8).error, 0);
    ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 8)})).error, 0);
    ASSERT_EQ(pair.a.sent().size(), 1u);
  }
  server.join();
  EXPECT_EQ(served, rounds);
}

TEST_F(R18Events, NonBlockingDescriptor) {
  Pair pair(a(), a(), spec());
  ibv_comp_channel* channel = a().device()->channel(pair.b.channel);
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// ibv_destroy_cq waits until every event that was taken is acknowledged.
TEST_F(R18Events, DestroyWaitsForTheAck) {
  Device& device = *a().device();
  Pair pair(a(), a(), spec());
  ASSERT_EQ(arm_b(pair, 0), 0);
  message(pair);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(device.channel(pair.b.channel), &cq, &context), 0);
  ASSERT_EQ(cq, device.cq(pair.b.recv_cq));
  ASSERT_EQ(a().destroy_qp(pair.b.qp), 0);
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    a().device()->destroy_cq(pair.b.recv_cq);
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(silence()));
  EXPECT_FALSE(destroyed) << "the CQ was destroyed while an event of it was in use";
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

// ---- Asynchronous events are acknowledged in the same way

class AsyncEvents : public Conformance {};

TEST_F(AsyncEvents, DestroyQpWaitsForTheAck) {
  Device& device = *a().device();
  Pair pair(a(), a());
  ASSERT_EQ(pair.a.post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, 0)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  do {  // COMM_EST and others may come first
    if (event.event_type != 0) ibv_ack_async_event(&event);
    pollfd waiter{device.context()->async_fd, POLLIN, 0};
    ASSERT_EQ(poll(&waiter, 1, static_cast<int>(patience())), 1) << "no IBV_EVENT_QP_ACCESS_ERR";
    ASSERT_EQ(ibv_get_async_event(device.context(), &event), 0);
  } while (event.event_type != IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, device.qp(pair.b.qp));
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    a().device()->destroy_qp(pair.b.qp);
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(silence()));
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

// An event of an object that has gone is not handed out any more.
TEST_F(AsyncEvents, NothingOfWhatIsGone) {
  Pair pair(a(), b());
  ASSERT_EQ(pair.a.post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, 0)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
  pair.b.state_becomes(IBV_QPS_ERR);
  std::this_thread::sleep_for(std::chrono::milliseconds(silence(50)));
  ASSERT_EQ(b().destroy_qp(pair.b.qp), 0);
  const Event event = b().wait_event(silence());
  EXPECT_TRUE(event.none) << ibv_event_type_str(static_cast<ibv_event_type>(event.type));
}

// The first message at an RTR QP: communication established.
TEST_F(AsyncEvents, CommunicationEstablished) {
  Spec spec;
  spec.connect = false;
  Pair pair(a(), b(), spec);
  must(modify(pair.a, to_init(spec, pair.a.info)), "INIT");
  must(modify(pair.b, to_init(spec, pair.b.info)), "INIT");
  must(modify(pair.a, to_rtr(spec, pair.a.info, pair.b.info, pair.b.qpn)), "RTR");
  must(modify(pair.b, to_rtr(spec, pair.b.info, pair.a.info, pair.a.qpn)), "RTR");
  must(modify(pair.a, to_rts(spec)), "RTS");
  ASSERT_EQ(pair.b.receive({{1, {pair.b.buffer.sge(0, 8)}}, {2, {pair.b.buffer.sge(0, 8)}}}).error, 0);
  for (u64 i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
    expect_wc(pair.a.sent(), i, IBV_WC_SUCCESS);
  }
  const Event event = wait_for(b(), IBV_EVENT_COMM_EST);
  ASSERT_FALSE(event.none);
  EXPECT_EQ(event.object, pair.b.qp);
  EXPECT_TRUE(wait_for(b(), IBV_EVENT_COMM_EST, silence()).none) << "once only";
}

// ---- Row 19

class R19Overrun : public Conformance {
 protected:
  // Receives complete on a CQ that is too small for them; nobody polls.
  void overrun(bool at_receiver) {
    Spec spec;
    spec.cq_entries = 4;
    spec.cap = {200, 200, 1, 1, 0};
    spec.one_cq = false;
    Pair pair(a(), b(), spec);
    const Node& victim = at_receiver ? pair.b : pair.a;
    const u32 room = 200;  // far more than a CQ that was asked to hold 4
    std::vector<Recv> receives(room, Recv{1, {pair.b.buffer.sge(0, 8)}});
    ASSERT_EQ(pair.b.receive(receives).error, 0);
    for (u32 i = 0; i < room; ++i) {
      // At the receiver: few completions of sends. At the sender: writes, so that the receiver has none.
      Send send = send_wr(i, {pair.a.buffer.sge(0, 8)});
      if (at_receiver)
        send.flags = i % 50 == 49 ? IBV_SEND_SIGNALED : 0;
      else
        send = rdma_wr(i, IBV_WR_RDMA_WRITE, send.sges, pair.b.buffer.address, pair.b.buffer.rkey);
      if (pair.a.post(send).error != 0) break;
    }
    const Event cq_error = wait_for(*victim.end, IBV_EVENT_CQ_ERR, patience(2000));
    ASSERT_FALSE(cq_error.none) << "no IBV_EVENT_CQ_ERR";
    EXPECT_EQ(cq_error.object, at_receiver ? victim.recv_cq : victim.send_cq);
    const Event fatal = wait_for(*victim.end, IBV_EVENT_QP_FATAL, patience(2000));
    ASSERT_FALSE(fatal.none) << "no IBV_EVENT_QP_FATAL";
    EXPECT_EQ(fatal.object, victim.qp);
    EXPECT_EQ(victim.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
  }
};

TEST_F(R19Overrun, AtTheReceiver) { overrun(true); }
TEST_F(R19Overrun, AtTheSender) { overrun(false); }

TEST_F(R19Overrun, FullIsNotOverrun) {
  Spec spec;
  spec.cq_entries = 8;
  Pair pair(a(), b(), spec);
  for (u64 i = 0; i < 8; ++i) {
    ASSERT_EQ(pair.b.receive(i, 0, 8).error, 0);
    ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(silence()));
  EXPECT_EQ(pair.a.sent(8).size(), 8u);
  EXPECT_EQ(pair.b.received(8).size(), 8u);
  EXPECT_TRUE(wait_for(b(), IBV_EVENT_CQ_ERR, silence(30)).none);
}

// ---- Resizing and extended polling

class CqResize : public Conformance {};

TEST_F(CqResize, EntriesStay) {
  Spec spec;
  spec.cq_entries = 16;
  Pair pair(a(), b(), spec);
  for (u64 i = 0; i < 10; ++i) {
    ASSERT_EQ(pair.b.receive(i, 0, 8).error, 0);
    ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(silence()));
  ASSERT_EQ(a().resize_cq(pair.a.send_cq, 500), 0);
  ASSERT_EQ(b().resize_cq(pair.b.recv_cq, 10), 0);
  const auto sent = pair.a.sent(10);
  const auto got = pair.b.received(10);
  ASSERT_EQ(sent.size(), 10u);
  ASSERT_EQ(got.size(), 10u);
  for (u64 i = 0; i < 10; ++i) EXPECT_TRUE(sent[i].wr_id == i && got[i].wr_id == i);
  expect_traffic(pair);
}

TEST_F(CqResize, TooSmallForWhatWaits) {
  Spec spec;
  spec.cq_entries = 64;
  Pair pair(a(), b(), spec);
  for (u64 i = 0; i < 12; ++i) {
    ASSERT_EQ(pair.b.receive(i, 0, 8).error, 0);
    ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(silence()));
  EXPECT_EQ(b().resize_cq(pair.b.recv_cq, 2), EINVAL);
  EXPECT_EQ(pair.b.received(12).size(), 12u) << "a refused resize must lose nothing";
}

TEST_F(CqResize, BadSizes) {
  Pair pair(a(), b());
  EXPECT_NE(a().resize_cq(pair.a.send_cq, 0), 0);
  EXPECT_NE(a().resize_cq(pair.a.send_cq, pair.a.info.device.max_cqe + 1), 0);
  const MadeCq none = a().create_cq(0, 0);
  EXPECT_EQ(none.id, 0u);
  EXPECT_EQ(none.error, EINVAL);
  const MadeCq huge = a().create_cq(pair.a.info.device.max_cqe + 1, 0);
  EXPECT_EQ(huge.id, 0u);
  EXPECT_EQ(huge.error, EINVAL);
}

TEST_F(CqResize, UnderTraffic) {
  Pair pair(a(), a());
  const int rounds = options().slow > 1 ? 60 : 400;
  for (int i = 0; i < rounds; ++i) {
    ASSERT_EQ(pair.b.receive(1, 0, 8).error, 0);
    ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 8)})).error, 0);
    ASSERT_EQ(a().resize_cq(pair.b.recv_cq, 40 + i % 100), 0);
    ASSERT_EQ(a().resize_cq(pair.a.send_cq, 40 + i % 77), 0);
    expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
    expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
  }
}

class CqEx : public Conformance {
 protected:
  static constexpr u64 all_fields = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                                    IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
                                    IBV_WC_EX_WITH_DLID_PATH_BITS;

  // A pair whose receiving end completes on an extended CQ.
  Pair make(ibv_qp_type type = IBV_QPT_RC) {
    Spec spec;
    spec.type = type;
    spec.connect = false;
    Pair pair(a(), b(), spec);
    const MadeCq cq = b().create_cq_ex(64, 0, all_fields);
    must(cq.error, "ibv_create_cq_ex");
    pair.b.recv_cq = cq.id;
    const MadeQp qp = b().create_qp({type, pair.b.pd, pair.b.send_cq, cq.id, 0, spec.cap, 0, 0});
    must(qp.error, "ibv_create_qp");
    pair.b.qp = qp.id;
    pair.b.qpn = qp.qpn;
    pair.connect();
    return pair;
  }
};

TEST_F(CqEx, EveryField) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    Pair pair = make(type);
    ASSERT_EQ(pair.b.receive(77, 0, 512).error, 0);
    Send send = type == IBV_QPT_UD ? ud_wr(1, {pair.a.buffer.sge(0, 33)}, pair.a, pair.b)
                                   : send_wr(1, {pair.a.buffer.sge(0, 33)});
    send.opcode = IBV_WR_SEND_WITH_IMM;
    send.imm = htobe32(0x01020304);
    ASSERT_EQ(pair.a.post(send).error, 0);
    const auto wcs = b().poll_ex(pair.b.recv_cq, 1, patience());
    ASSERT_EQ(wcs.size(), 1u);
    EXPECT_EQ(wcs[0].wr_id, 77u);
    EXPECT_EQ(wcs[0].status, static_cast<u32>(IBV_WC_SUCCESS));
    EXPECT_EQ(wcs[0].opcode, static_cast<u32>(IBV_WC_RECV));
    EXPECT_EQ(wcs[0].byte_len, type == IBV_QPT_UD ? 73u : 33u);
    EXPECT_EQ(be32toh(wcs[0].imm), 0x01020304u);
    EXPECT_TRUE(wcs[0].flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(wcs[0].qp_num, pair.b.qpn);
    if (type == IBV_QPT_UD) EXPECT_EQ(wcs[0].src_qp, pair.a.qpn);
  }
}

// A batch that ends before the queue does.
TEST_F(CqEx, BatchShorterThanTheQueue) {
  Pair pair = make();
  for (u64 i = 0; i < 6; ++i) {
    ASSERT_EQ(pair.b.receive(i, 0, 8).error, 0);
    ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
  }
  ASSERT_EQ(pair.a.sent(6).size(), 6u);
  std::this_thread::sleep_for(std::chrono::milliseconds(silence(50)));
  const auto first = b().poll_ex(pair.b.recv_cq, 4, patience());
  ASSERT_EQ(first.size(), 4u);
  const auto rest = b().poll_ex(pair.b.recv_cq, 2, patience());
  ASSERT_EQ(rest.size(), 2u);
  for (u64 i = 0; i < 6; ++i) EXPECT_EQ((i < 4 ? first[i] : rest[i - 4]).wr_id, i);
}

// ibv_next_poll says ENOENT at the end; the next round sees exactly what came since.
TEST_F(CqEx, DrainedToTheEnd) {
  Pair pair = make();
  for (u64 round = 0; round < 5; ++round) {
    for (u64 i = 0; i < 3; ++i) {
      ASSERT_EQ(pair.b.receive(round * 10 + i, 0, 8).error, 0);
      ASSERT_EQ(pair.a.post(send_wr(i, {pair.a.buffer.sge(0, 8)})).error, 0);
    }
    ASSERT_EQ(pair.a.sent(3).size(), 3u);
    std::this_thread::sleep_for(std::chrono::milliseconds(silence(50)));
    const auto wcs = b().poll_ex(pair.b.recv_cq, 100, silence(30));
    ASSERT_EQ(wcs.size(), 3u) << "round " << round;
    for (u64 i = 0; i < 3; ++i) EXPECT_EQ(wcs[i].wr_id, round * 10 + i);
  }
}

TEST_F(CqEx, UnknownFieldIsRefused) {
  const MadeCq cq = a().create_cq_ex(16, 0, 1ULL << 40);
  EXPECT_EQ(cq.id, 0u);
  EXPECT_TRUE(cq.error == EOPNOTSUPP || cq.error == EINVAL) << cq.error;
}

}  // namespace
}  // namespace conformance
