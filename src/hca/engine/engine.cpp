#include "hca/engine.h"

#include <sched.h>
#include <time.h>

#include "hca/engine/context.h"
#include "hca/engine/helper.h"
#include "hca/engine/lane.h"
#include "hca/engine/qp_error.h"
#include "hca/engine/ring.h"
#include "hca/engine/ring_move.h"
#include "ipc/quiesce.h"
#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

using ipc::Qp;
using ipc::QpState;
using ipc::Wait;

class DirectEngine final : public Engine {
 public:
  DirectEngine(ipc::Segment& segment, ipc::Client& client, u32 slot, int memory_fd)
      : context_(segment, client, slot, memory_fd), lanes_(segment.processes[slot]), helper_(context_, lanes_) {}

  int doorbell(u32 qpn, u32 context) override;
  void qp_modified(u32 qpn, QpState from, QpState to) override;
  void qp_destroyed(u32 qpn) override;
  void wait_quiescent() override;
  int arm_cq(u32 cq, u32 context, bool solicited_only) override;
  Result<void> move_cq_ring(u32 cq, u64 new_ring, u32 new_mask) override;
  Result<void> move_srq_ring(u32 srq, u64 new_ring, u32 new_mask) override;
  void srq_limit_armed(u32 srq) override;
  void serve_peers() override { helper_.start(); }
  OwnThread& helper_thread() override { return helper_; }
  void abandon() override {}

 private:
  void raise_events() {
    if (!context_.events.empty()) [[unlikely]]
      context_.events.raise_all();
    if (!context_.violations.empty()) [[unlikely]]
      context_.violations.report();
  }
  void reset(Qp& qp);
  void flush(Qp& qp);
  void report_drained(Qp& qp);

  Context context_;
  Lanes lanes_;
  Helper helper_;
};

bool may_post(QpState state) {
  return state == QpState::rts || state == QpState::sqd || state == QpState::sqe || state == QpState::err;
}

int DirectEngine::doorbell(u32 qpn, u32 context) {
  Qp* qp = context_.qp(qpn);
  if (!qp || qp->context != context) [[unlikely]]
    return EINVAL;
  if (!may_post(qp->state.load(std::memory_order_acquire))) [[unlikely]] {
    // The rxe provider doesn't look at the state before it fills the ring.
    helper_.queue().discard(*qp);
    return EINVAL;
  }
  context_.memory.forget_the_dead();
  {
    LaneGuard lane(lanes_);
    helper_.queue().drive(*qp);
  }
  raise_events();
  return 0;
}

void DirectEngine::wait_quiescent() {
  constexpr int yields = 1000;
  constexpr int naps =
      50'000;  // of 100 us and more: a peer that is stopped in the middle of a copy is not waited for longer
  auto snapshot = ipc::LaneSnapshot::take(context_.segment);
  for (int i = 0; i < yields; ++i) {
    if (snapshot.passed(context_.segment)) return;
    ::sched_yield();
  }
  for (int i = 0; i < naps && !snapshot.passed(context_.segment); ++i) {
    timespec nap{0, 100'000};
    ::nanosleep(&nap, nullptr);
  }
}

// Forgets all that was posted and not completed.
void DirectEngine::reset(Qp& qp) {
  helper_.forget(qp.qpn);
  wait_quiescent();
  qp.requester.wait.store(Wait::none, std::memory_order_release);
  qp.requester.active.store(0, std::memory_order_release);
  qp.requester.passage = ipc::Passage::none;
  qp.requester.packets_left = 0;
  helper_.queue().discard(qp);
  ipc::LockGuard guard(qp.responder.lock, context_.slot);
  auto& responder = qp.responder;
  responder.claimed.store(0, std::memory_order_relaxed);
  responder.established = 0;
  responder.last_wqe_raised = 0;
  if (qp.srq) return;
  Ring ring(context_.segment, qp.rq_ring, qp.rq_mask);
  responder.consumer = responder.producer_cache = ring.producer();
  ring.set_consumer(responder.consumer);
}

void DirectEngine::flush(Qp& qp) {
  wait_quiescent();  // what was under way completes as it would have
  {
    LaneGuard lane(lanes_);
    helper_.queue().resume(qp);
    flush_receives(context_, qp);
  }
  if (qp.srq) return;
  helper_.start();
  helper_.watch_receives(qp.qpn);
  helper_.wake();
}

// Requests are carried out when posted, so a queue that isn't waiting for a retry has drained.
void DirectEngine::report_drained(Qp& qp) {
  wait_quiescent();
  helper_.queue().finish_draining(qp);
}

void DirectEngine::qp_modified(u32 qpn, QpState from, QpState to) {
  Qp* qp = context_.qp(qpn);
  if (!qp) return;
  switch (to) {
    case QpState::reset:
      reset(*qp);
      break;
    case QpState::err:
      flush(*qp);
      break;
    case QpState::rtr:
      helper_.start();
      break;
    case QpState::sqd:
      if (from != QpState::sqd) report_drained(*qp);
      break;
    case QpState::rts:
      if (from == QpState::rtr) {
        qp->requester.retries_left = qp->retry_count;
        qp->requester.rnr_left = qp->rnr_retry;
      } else {
        LaneGuard lane(lanes_);
        helper_.queue().drive(*qp);
      }
      break;
    default:
      break;
  }
  raise_events();
}

void DirectEngine::qp_destroyed(u32 qpn) {
  helper_.forget(qpn);
  wait_quiescent();
  context_.memory.forget_the_dead();
  raise_events();
}

int DirectEngine::arm_cq(u32 index, u32 context, bool solicited_only) {
  if (index == 0 || index >= ipc::max_cqs) return EINVAL;
  ipc::Cq& cq = context_.cq(index);
  if (cq.generation.load(std::memory_order_acquire) == 0 || cq.context != context) return EINVAL;
  ipc::LockGuard guard(cq.lock, context_.slot);
  if (!guard.held()) return EIO;
  // A CQ that is armed for any completion stays so.
  if (cq.arm.load(std::memory_order_relaxed) != ipc::Arm::next)
    cq.arm.store(solicited_only ? ipc::Arm::solicited : ipc::Arm::next, std::memory_order_relaxed);
  return 0;
}

Result<void> DirectEngine::move_cq_ring(u32 index, u64 new_ring, u32 new_mask) {
  ipc::Cq& cq = context_.cq(index);
  ipc::LockGuard guard(cq.lock, context_.slot);
  if (!guard.held()) return fail(EIO);
  Ring from(context_.segment, cq.ring, cq.mask);
  Ring to(context_.segment, new_ring, new_mask);
  auto moved = move_entries(from, to, cqe_log2_size);
  if (!moved) return fail(moved.error());
  cq.ring = new_ring;
  cq.mask = new_mask;
  cq.producer = *moved;
  cq.consumer_cache = 0;
  return {};
}

Result<void> DirectEngine::move_srq_ring(u32 index, u64 new_ring, u32 new_mask) {
  ipc::Srq& srq = context_.srq(index);
  ipc::LockGuard guard(srq.lock, context_.slot);
  if (!guard.held()) return fail(EIO);
  Ring from(context_.segment, srq.ring, srq.mask);
  Ring to(context_.segment, new_ring, new_mask);
  auto moved = move_entries(from, to, receive_log2_size(srq.max_sge));
  if (!moved) return fail(moved.error());
  srq.ring = new_ring;
  srq.mask = new_mask;
  return {};
}

void DirectEngine::srq_limit_armed(u32 index) {
  ipc::Srq& srq = context_.srq(index);
  {
    ipc::LockGuard guard(srq.lock, context_.slot);
    if (!guard.held()) return;
    Ring ring(context_.segment, srq.ring, srq.mask);
    u32 left = (ring.producer() - ring.consumer()) & srq.mask;
    u32 limit = srq.limit.load(std::memory_order_relaxed);
    if (limit == 0 || left >= limit) return;
    srq.limit.store(0, std::memory_order_relaxed);
  }
  context_.events.add(ipc::ObjectKind::srq, index, srq.generation.load(std::memory_order_relaxed),
                      AsyncEvent::srq_limit_reached);
  raise_events();
}

}  // namespace

std::unique_ptr<Engine> Engine::create(ipc::Segment& segment, ipc::Client& client, u32 slot, int memory_fd) {
  return std::make_unique<DirectEngine>(segment, client, slot, memory_fd);
}

}  // namespace softib::hca
