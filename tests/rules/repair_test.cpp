// A sender dies at every step of a delivery; the receiver must end up with each receive completed or still posted,
// never both, never neither.
#include "hca/rules/repair.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "abi/rxe.h"
#include "hca/engine/ring.h"
#include "hca/rules/ring_layout.h"
#include "ipc/shared_lock.h"

namespace softib::hca {
namespace {

constexpr u32 dead = 1;
constexpr u32 alive = 2;
constexpr u32 qpn = 0x11;
constexpr u32 flushed = 5;

class RepairTest : public ::testing::Test, public RepairSink {
 protected:
  RepairTest()
      : segment_(*static_cast<ipc::Segment*>(::mmap(nullptr, sizeof(ipc::Segment), PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    auto& header = segment_.header;
    header.qp_limit = qpn + 1;
    header.cq_limit = 2;
    header.srq_limit = 2;
    header.process_limit = 3;
    segment_.processes[dead].state = ipc::ProcessState::dead;
    segment_.processes[alive].state = ipc::ProcessState::live;
    make_cq();
    make_qp();
  }
  ~RepairTest() override { ::munmap(&segment_, sizeof(ipc::Segment)); }

  void completion_event(u32 cq) override { completion_events_.push_back(cq); }
  void cq_overrun(u32 cq) override { overruns_.push_back(cq); }

  void make_cq(u32 entries = 7) {
    auto layout = cq_layout(entries);
    cq().ring = 4096;
    cq().mask = layout.mask();
    cq().generation = 1;
  }

  void make_qp() {
    auto layout = receive_layout(4, 1);
    qp().qpn = qpn;
    qp().generation = 1;
    qp().recv_cq = 1;
    qp().rq_ring = 16384;
    qp().rq_mask = layout.mask();
    qp().rq_log2_size = layout.log2_size;
  }

  void make_srq() {
    auto layout = receive_layout(4, 1);
    srq().ring = 32768;
    srq().mask = layout.mask();
    srq().max_sge = 1;
    srq().generation = 1;
    qp().srq = 1;
    qp().rq_ring = 0;
    qp().rq_mask = 0;
  }

  ipc::Qp& qp() { return segment_.qps[qpn]; }
  ipc::Cq& cq() { return segment_.cqs[1]; }
  ipc::Srq& srq() { return segment_.srqs[1]; }
  Ring cq_ring() { return {segment_, cq().ring, cq().mask}; }
  Ring receive_ring() {
    return qp().srq ? Ring(segment_, srq().ring, srq().mask) : Ring(segment_, qp().rq_ring, qp().rq_mask);
  }

  void post(u64 wr_id) {
    Ring ring = receive_ring();
    u32 at = ring.producer();
    ring.at<abi::RecvWqe>(at, 6)->wr_id = wr_id;
    ring.set_producer(ring.next(at));
  }

  std::vector<ib_uverbs_wc> poll() {
    std::vector<ib_uverbs_wc> found;
    Ring ring = cq_ring();
    for (u32 at = ring.consumer(); at != ring.producer(); at = ring.next(at)) {
      found.push_back(*ring.at<ib_uverbs_wc>(at, cqe_log2_size));
      ring.set_consumer(ring.next(at));
    }
    return found;
  }

  std::vector<u64> still_posted() {
    std::vector<u64> found;
    Ring ring = receive_ring();
    for (u32 at = ring.consumer(); at != ring.producer(); at = ring.next(at))
      found.push_back(ring.at<abi::RecvWqe>(at, 6)->wr_id);
    return found;
  }

  // The first `steps` steps of a delivery, in the order that repair.h lays down. True: there were more.
  bool deliver(int steps) {
    auto& responder = qp().responder;
    Ring ring = receive_ring();
    u32 at = ring.consumer();
    u32 cqe = 0;
    bool shared = qp().srq != 0;
    std::vector<std::function<void()>> plan{
        [&] { ASSERT_TRUE(ipc::try_lock(responder.lock, dead)); },
        [&] { ASSERT_TRUE(!shared || ipc::try_lock(srq().lock, dead)); },
        [&] { responder.consumer = ring.next(at); },
        [&] { responder.claimed_wr_id = ring.at<abi::RecvWqe>(at, 6)->wr_id; },
        [&] { responder.claimed = 1; },
        [&] { ring.set_consumer(ring.next(at)); },
        [&] {
          if (shared) ipc::unlock(srq().lock);
        },
        [&] { ASSERT_TRUE(ipc::try_lock(cq().lock, dead)); },
        [&] { responder.claimed_cqe = cqe = cq().producer; },
        [&] { responder.claimed = 2; },
        [&] {
          ib_uverbs_wc wc{};
          wc.wr_id = responder.claimed_wr_id;
          wc.opcode = 128;
          wc.qp_num = qpn;
          *cq_ring().at<ib_uverbs_wc>(cqe, cqe_log2_size) = wc;
        },
        [&] { cq().producer = cq_ring().next(cqe); },
        [&] { cq_ring().set_producer(cq_ring().next(cqe)); },
        [&] { ipc::unlock(cq().lock); },
        [&] { responder.claimed = 0; },
        [&] { ipc::unlock(responder.lock); },
    };
    for (int i = 0; i < std::min<int>(steps, static_cast<int>(plan.size())); ++i) plan[static_cast<size_t>(i)]();
    return steps < static_cast<int>(plan.size());
  }

  void expect_whole() {
    EXPECT_EQ(qp().responder.lock.holder, 0U);
    EXPECT_EQ(cq().lock.holder, 0U);
    EXPECT_EQ(srq().lock.holder, 0U);
    EXPECT_EQ(qp().responder.claimed, 0U);
    EXPECT_EQ(cq().producer, cq_ring().producer());
    EXPECT_TRUE(qp().srq || qp().responder.consumer == receive_ring().consumer());
  }

  // All receives carry the same wr_id, so that nothing can be told apart by looking at them.
  void die_at_every_step(bool shared) {
    for (int steps = 0;; ++steps) {
      SCOPED_TRACE("died after step " + std::to_string(steps));
      if (shared) make_srq();
      post(77);
      post(77);
      bool more = deliver(steps);
      ASSERT_TRUE(repair_after_death(segment_, dead, *this));
      expect_whole();
      auto completed = poll();
      EXPECT_EQ(completed.size() + still_posted().size(), 2U);
      EXPECT_LE(completed.size(), 1U);
      for (const auto& wc : completed) {
        EXPECT_EQ(wc.wr_id, 77U);
        EXPECT_EQ(wc.qp_num, qpn);
        bool published = steps >= 13;
        EXPECT_EQ(wc.status, published ? 0U : flushed);
      }
      receive_ring().set_consumer(receive_ring().producer());
      qp().responder.consumer = receive_ring().consumer();
      if (!more) return;
    }
  }

  ipc::Segment& segment_;
  std::vector<u32> completion_events_;
  std::vector<u32> overruns_;
};

TEST_F(RepairTest, DeathAtEveryStepOwnQueue) { die_at_every_step(false); }

TEST_F(RepairTest, DeathAtEveryStepSharedQueue) { die_at_every_step(true); }

TEST_F(RepairTest, LocksOfTheLivingStay) {
  ASSERT_TRUE(ipc::try_lock(qp().responder.lock, alive));
  ASSERT_TRUE(ipc::try_lock(cq().lock, alive));
  EXPECT_TRUE(repair_after_death(segment_, dead, *this));
  EXPECT_EQ(qp().responder.lock.holder, alive);
  EXPECT_EQ(cq().lock.holder, alive);
}

TEST_F(RepairTest, WaitsForTheLivingHolderOfTheCq) {
  post(5);
  deliver(7);
  ASSERT_TRUE(ipc::try_lock(cq().lock, alive));
  EXPECT_FALSE(repair_after_death(segment_, dead, *this));
  EXPECT_EQ(qp().responder.lock.holder, dead) << "kept until it is repaired";
  ipc::unlock(cq().lock);
  EXPECT_TRUE(repair_after_death(segment_, dead, *this));
  expect_whole();
  auto completed = poll();
  ASSERT_EQ(completed.size(), 1U);
  EXPECT_EQ(completed[0].wr_id, 5U);
  EXPECT_EQ(completed[0].status, flushed);
}

TEST_F(RepairTest, ArmedQueueFires) {
  cq().arm = ipc::Arm::solicited;
  post(5);
  deliver(7);
  EXPECT_TRUE(repair_after_death(segment_, dead, *this));
  EXPECT_EQ(completion_events_, std::vector<u32>{1});
  EXPECT_EQ(cq().arm, ipc::Arm::none);
}

TEST_F(RepairTest, AnEventThatTheDeadOwedIsSent) {
  cq().firing = dead;  // disarmed, the lock let go, the event not written
  ASSERT_TRUE(repair_after_death(segment_, dead, *this));
  EXPECT_EQ(completion_events_, std::vector<u32>{1});
  EXPECT_EQ(cq().firing, 0U);
  completion_events_.clear();
  cq().firing = alive;
  ASSERT_TRUE(repair_after_death(segment_, dead, *this));
  EXPECT_TRUE(completion_events_.empty());
  EXPECT_EQ(cq().firing, alive);
}

TEST_F(RepairTest, ACompletionThatTheDeadAddedFires) {
  for (bool added : {false, true}) {
    cq().arm = ipc::Arm::next;
    cq().lock.holder = dead;
    if (added) Ring(segment_, cq().ring, cq().mask).set_producer(1);
    ASSERT_TRUE(repair_after_death(segment_, dead, *this));
    EXPECT_EQ(completion_events_.size(), added ? 1U : 0U);
    EXPECT_EQ(cq().arm, added ? ipc::Arm::none : ipc::Arm::next);
    EXPECT_EQ(cq().lock.holder, 0U);
  }
}

TEST_F(RepairTest, FullQueueOverruns) {
  Ring ring = cq_ring();
  for (u32 i = 0; i < 7; ++i) ring.set_producer(ring.next(ring.producer()));
  cq().producer = ring.producer();
  post(5);
  deliver(7);
  EXPECT_TRUE(repair_after_death(segment_, dead, *this));
  EXPECT_EQ(overruns_, std::vector<u32>{1});
  EXPECT_EQ(cq().overrun, 1U);
  expect_whole();
}

TEST_F(RepairTest, Mailboxes) {
  auto& agent = segment_.processes[alive].agent;
  ASSERT_TRUE(ipc::try_lock(agent.lock, dead));
  agent.state = 1;
  EXPECT_FALSE(repair_after_death(segment_, dead, *this)) << "the agent is about to answer";
  agent.state = 2;
  EXPECT_TRUE(repair_after_death(segment_, dead, *this));
  EXPECT_EQ(agent.state, 0U);
  EXPECT_EQ(agent.lock.holder, 0U);
}

TEST_F(RepairTest, RecordsThatLeadNowhereDoNoHarm) {
  for (u64 ring : {u64{0}, u64{8}, ipc::arena_size - 8, ipc::arena_size - 4096, ~u64{0}})
    for (u32 mask : {0U, 0xffffffffU}) {
      cq().ring = ring;
      cq().mask = mask;
      qp().rq_ring = ring;
      qp().rq_mask = mask;
      for (u32 claimed : {1U, 2U, 7U}) {
        qp().responder.lock.holder = dead;
        qp().responder.claimed = claimed;
        qp().recv_cq = 0xffffffffU;
        EXPECT_TRUE(repair_after_death(segment_, dead, *this));
        qp().responder.lock.holder = dead;
        qp().responder.claimed = claimed;
        qp().recv_cq = 1;
        cq().lock.holder = dead;
        EXPECT_TRUE(repair_after_death(segment_, dead, *this));
      }
    }
}

}  // namespace
}  // namespace softib::hca
