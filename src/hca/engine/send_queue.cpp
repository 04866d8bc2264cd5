#include "hca/engine/send_queue.h"

#include "hca/engine/completion.h"
#include "hca/engine/passage.h"
#include "hca/engine/qp_error.h"
#include "hca/engine/ring.h"
#include "hca/engine/send_work.h"
#include "hca/engine/timers.h"
#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

using ipc::Qp;
using ipc::QpState;
using ipc::Wait;

// mlx5 and rxe give the opcode in error completions too.
WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
      return WcOpcode::rdma_write;
    case WrOpcode::rdma_read:
      return WcOpcode::rdma_read;
    case WrOpcode::compare_swap:
      return WcOpcode::compare_swap;
    case WrOpcode::fetch_add:
      return WcOpcode::fetch_add;
    case WrOpcode::bind_mw:
      return WcOpcode::bind_mw;
    case WrOpcode::local_inv:
      return WcOpcode::local_inv;
    case WrOpcode::flush:
      return WcOpcode::flush;
    case WrOpcode::atomic_write:
      return WcOpcode::atomic_write;
    default:
      return WcOpcode::send;
  }
}

u32 vendor_error(WcStatus status) {
  switch (status) {
    case WcStatus::success:
      return 0;
    case WcStatus::wr_flush_err:
      return vendor_err_flush;
    case WcStatus::retry_exc_err:
      return vendor_err_retry;
    case WcStatus::rnr_retry_exc_err:
      return vendor_err_rnr;
    default:
      return vendor_err_access;
  }
}

void complete(Context& context, Qp& qp, const abi::SendWqe& wqe, WcStatus status, u32 byte_len) {
  bool signaled = qp.sq_sig_all || (wqe.wr.send_flags & send_signaled);
  if (status == WcStatus::success && !signaled) return;
  CompletionSlot slot(context, qp.send_cq);
  if (!slot.entry()) return;
  ib_uverbs_wc& wc = *slot.entry();
  wc.wr_id = wqe.wr.wr_id;
  wc.status = static_cast<u32>(status);
  wc.opcode = static_cast<u32>(completion_opcode(static_cast<WrOpcode>(wqe.wr.opcode)));
  wc.vendor_err = vendor_error(status);
  wc.byte_len = byte_len;
  wc.qp_num = qp.qpn;
  wc.port_num = qp.av.port_num;
  slot.publish(Solicit::no);
}

void fill_retries(Qp& qp) {
  qp.requester.retries_left = qp.retry_count;
  qp.requester.rnr_left = qp.rnr_retry;
  qp.requester.rnr_since = 0;
  qp.requester.passage = ipc::Passage::none;
  qp.requester.packets_left = 0;
}

u64 rnr_pause(Qp& qp, u8 timer, u64 now) {
  if (qp.rnr_retry != rnr_retry_for_ever) return rnr_timer_ns(timer);
  auto& since = qp.requester.rnr_since;
  if (since == 0) since = now;
  return patient_rnr_ns(timer, now - since);
}

// A wait begins; gives false when its retries are used up, with the status in `status`.
bool begin_wait(Qp& qp, const Outcome& outcome, WcStatus& status) {
  auto& requester = qp.requester;
  if (outcome.verdict == Verdict::on_its_way) {
    requester.wait.store(Wait::passage, std::memory_order_release);
    return true;
  }
  bool rnr = outcome.verdict == Verdict::not_ready;
  bool unlimited = rnr && qp.rnr_retry == rnr_retry_for_ever;
  u32& left = rnr ? requester.rnr_left : requester.retries_left;
  // An ACK time-out is noticed only after it has passed, so the last try too is waited for: `left` may be 0 once.
  if (rnr && !unlimited) {
    if (left == 0) {
      status = WcStatus::rnr_retry_exc_err;
      return false;
    }
    --left;
  }
  u64 now = now_ns();
  u64 pause = rnr ? rnr_pause(qp, outcome.rnr_timer, now) : ack_timeout_ns(qp.timeout);
  requester.deadline = pause == never ? never : now + pause;
  requester.wait.store(rnr ? Wait::rnr : Wait::ack_timeout, std::memory_order_release);
  return true;
}

Outcome attempt(Context& context, const SendWork& work) {
  return work.qp.type == ipc::QpType::ud ? carry_out_datagram(context, work) : carry_out_connected(context, work);
}

bool has_receive(Context& context, const Qp& target) {
  if (target.srq) {
    ipc::Srq& srq = context.srq(target.srq);
    Ring ring(context.segment, srq.ring, srq.mask);
    return ring.consumer() != ring.producer();
  }
  Ring ring(context.segment, target.rq_ring, target.rq_mask);
  return ring.consumer() != ring.producer();
}

// A receive that is posted while the message would still be on its way through wire and HCA is no RNR. Without this,
// a receiver that is behind by one request would cost the sender the whole RNR timer, as no hardware does at this rate.
bool receive_comes_in_time(Context& context, const Qp& qp) {
  constexpr u64 time_of_flight_ns = 5'000;
  const Qp* peer = context.qp(qp.dest_qpn);
  if (!peer) return false;
  for (u64 end = now_ns() + time_of_flight_ns; now_ns() < end; ipc::cpu_relax())
    if (has_receive(context, *peer)) return true;
  return false;
}

}  // namespace

// One work request. False: stop. In SQD, only a request that had begun goes on.
bool SendQueue::step(Qp& qp, Begun begun) {
  Ring ring(context_.segment, qp.sq_ring, qp.sq_mask);
  u32 at = ring.consumer();
  if (at == ring.producer()) return false;
  auto& wqe = *ring.at<abi::SendWqe>(at, qp.sq_log2_size);
  QpState state = qp.state.load(std::memory_order_acquire);
  if (state == QpState::err || state == QpState::sqe) {
    complete(context_, qp, wqe, WcStatus::wr_flush_err, 0);
    ring.set_consumer(ring.next(at));
    return true;
  }
  bool goes_on = state == QpState::rts || (state == QpState::sqd && begun == Begun::yes);
  if (!goes_on) return false;
  SendWork work{qp, wqe};
  Outcome outcome = attempt(context_, work);
  if (outcome.verdict == Verdict::not_ready && receive_comes_in_time(context_, qp)) outcome = attempt(context_, work);
  WcStatus status = outcome.status;
  if (outcome.verdict != Verdict::completed && begin_wait(qp, outcome, status)) {
    waits_.add(qp);
    return false;
  }
  fill_retries(qp);
  if (status != WcStatus::success) {
    fail_head(qp, status);
    return true;
  }
  complete(context_, qp, wqe, status, outcome.byte_len);
  ring.set_consumer(ring.next(at));
  return true;
}

void SendQueue::run(Qp& qp) {
  auto& wait = qp.requester.wait;
  while (wait.load(std::memory_order_acquire) == Wait::none && step(qp, Begun::no)) {
  }
  if (wait.load(std::memory_order_relaxed) == Wait::passage) [[unlikely]]
    note_posted(context_, qp);
}

void SendQueue::drive(Qp& qp) {
  auto& active = qp.requester.active;
  if (active.fetch_add(1, std::memory_order_acq_rel) == 0) run_until_idle(qp);
}

// The driver leaves only when no doorbell has rung since its last look at the ring.
void SendQueue::run_until_idle(Qp& qp) {
  u32 seen = 1;
  do run(qp);
  while (!qp.requester.active.compare_exchange_strong(seen, 0, std::memory_order_acq_rel));
}

void SendQueue::resume(Qp& qp) {
  auto& requester = qp.requester;
  if (requester.active.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  Wait waited = requester.wait.load(std::memory_order_relaxed);
  QpState state = qp.state.load(std::memory_order_acquire);
  bool timed_out = waited == Wait::ack_timeout && (state == QpState::rts || state == QpState::sqd);
  requester.wait.store(Wait::none, std::memory_order_release);
  if (timed_out && requester.retries_left == 0)
    fail_head(qp, WcStatus::retry_exc_err);
  else if (timed_out)
    --requester.retries_left;
  if (waited != Wait::none && state == QpState::sqd) step(qp, Begun::yes);
  run_until_idle(qp);
  finish_draining(qp);
}

void SendQueue::finish_draining(Qp& qp) {
  bool drained = qp.sq_draining && qp.state.load(std::memory_order_acquire) == QpState::sqd &&
                 qp.requester.wait.load(std::memory_order_acquire) == Wait::none;
  if (!drained) return;
  qp.sq_draining = 0;
  context_.raise(qp, AsyncEvent::sq_drained);  // softibd passes it on to those who asked
}

// The request at the head of the queue ends in an error, and the QP with it.
void SendQueue::fail_head(Qp& qp, WcStatus status) {
  Ring ring(context_.segment, qp.sq_ring, qp.sq_mask);
  u32 at = ring.consumer();
  if (at == ring.producer()) return;
  complete(context_, qp, *ring.at<abi::SendWqe>(at, qp.sq_log2_size), status, 0);
  ring.set_consumer(ring.next(at));
  enter_send_error(qp);
  if (qp.state.load(std::memory_order_acquire) != QpState::err) return;
  flush_receives(context_, qp);
  wake_owner(context_, qp);
}

void SendQueue::discard(Qp& qp) {
  Ring ring(context_.segment, qp.sq_ring, qp.sq_mask);
  ring.set_producer(ring.consumer());
}

}  // namespace softib::hca
