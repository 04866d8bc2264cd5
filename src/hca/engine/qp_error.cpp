#include "hca/engine/qp_error.h"

#include "hca/engine/agent.h"
#include "hca/engine/completion.h"
#include "hca/engine/ring.h"
#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

using ipc::QpState;

bool move_state(ipc::Qp& qp, QpState target, bool (*allowed)(QpState)) {
  QpState now = qp.state.load(std::memory_order_acquire);
  while (allowed(now))
    if (qp.state.compare_exchange_weak(now, target, std::memory_order_acq_rel)) return true;
  return false;
}

bool can_fail(QpState state) {
  return state == QpState::init || state == QpState::rtr || state == QpState::rts || state == QpState::sqd ||
         state == QpState::sqe;
}

bool is_sending(QpState state) { return state == QpState::rts || state == QpState::sqd; }

}  // namespace

bool enter_error(ipc::Qp& qp) { return move_state(qp, QpState::err, can_fail); }

void enter_send_error(ipc::Qp& qp) {
  if (qp.type == ipc::QpType::rc)
    enter_error(qp);
  else
    move_state(qp, QpState::sqe, is_sending);
}

void wake_owner(Context& context, const ipc::Qp& qp) {
  ipc::Process& owner = context.process(qp.owner);
  owner.qp_errors.fetch_add(1, std::memory_order_release);
  kick(owner);
}

u32 flush_receives_locked(Context& context, ipc::Qp& qp) {
  u32 flushed = 0;
  auto& responder = qp.responder;
  if (responder.claimed.exchange(0, std::memory_order_acq_rel)) {
    push_flushed_receive(context, qp, responder.claimed_wr_id);
    ++flushed;
  }
  if (qp.srq) {
    if (!responder.last_wqe_raised) {
      responder.last_wqe_raised = 1;
      context.raise(qp, AsyncEvent::qp_last_wqe_reached);
    }
    return flushed;
  }
  Ring ring(context.segment, qp.rq_ring, qp.rq_mask);
  u32 end = ring.producer();
  for (u32 at = responder.consumer & qp.rq_mask; at != end; at = ring.next(at)) {
    push_flushed_receive(context, qp, ring.at<abi::RecvWqe>(at, qp.rq_log2_size)->wr_id);
    ring.set_consumer(ring.next(at));
    responder.consumer = ring.next(at);
    ++flushed;
  }
  return flushed;
}

u32 flush_receives(Context& context, ipc::Qp& qp) {
  ipc::LockGuard guard(qp.responder.lock, context.slot);
  return guard.held() ? flush_receives_locked(context, qp) : 0;
}

}  // namespace softib::hca
