#include "hca/engine/completion.h"

#include <algorithm>

#include "hca/engine/qp_error.h"
#include "hca/engine/ring.h"
#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

// Every QP that uses the CQ is lost: its completions can't be told any more.
void fail_users(Context& context, u32 cq_index) {
  u32 limit = std::min(context.segment.header.qp_limit.load(std::memory_order_acquire), ipc::max_qps);
  for (u32 qpn = 1; qpn < limit; ++qpn) {
    ipc::Qp* qp = context.qp(qpn);
    if (!qp || (qp->send_cq != cq_index && qp->recv_cq != cq_index)) continue;
    if (enter_error(*qp)) {
      context.raise(*qp, AsyncEvent::qp_fatal);
      wake_owner(context, *qp);
    }
  }
}

}  // namespace

CompletionSlot::CompletionSlot(Context& context, u32 cq_index, ClaimMark mark)
    : context_(context), cq_(context.cq(cq_index)), index_(cq_index), locked_(ipc::lock(cq_.lock, context.slot)) {
  if (locked_) take(mark);
}

void CompletionSlot::take(ClaimMark mark) {
  if (cq_.overrun.load(std::memory_order_relaxed)) return;
  Ring ring(context_.segment, cq_.ring, cq_.mask);
  u32 at = cq_.producer & cq_.mask;
  u32 next = ring.next(at);
  if (next == cq_.consumer_cache) {
    cq_.consumer_cache = ring.consumer();
    if (next == cq_.consumer_cache) {
      cq_.overrun.store(1, std::memory_order_relaxed);
      overrun_ = true;
      return;
    }
  }
  if (mark.responder) {
    mark.responder->claimed_cqe = at;
    mark.responder->claimed.store(2, std::memory_order_release);
  }
  entry_ = ring.at<ib_uverbs_wc>(at, cqe_log2_size);
  *entry_ = {};
}

void CompletionSlot::publish(Solicit solicit) {
  // A completion in error counts as solicited (ibv_req_notify_cq(3)).
  const bool wakes = solicit == Solicit::yes || entry_->status != static_cast<u32>(WcStatus::success);
  Ring ring(context_.segment, cq_.ring, cq_.mask);
  cq_.producer = ring.next(cq_.producer & cq_.mask);
  ring.set_producer(cq_.producer);
  fire_if_armed(wakes);
}

// The event is written later, without the lock; until then `firing` says who owes it, for repair_after_death().
void CompletionSlot::fire_if_armed(bool wakes_solicited) {
  ipc::Arm arm = cq_.arm.load(std::memory_order_relaxed);
  if (arm == ipc::Arm::none) return;
  if (arm == ipc::Arm::solicited && !wakes_solicited) return;
  fires_ = cq_.channel != 0;
  channel_ = cq_.channel;
  channel_generation_ = cq_.channel_generation;
  if (fires_) cq_.firing.store(context_.slot, std::memory_order_release);
  cq_.arm.store(ipc::Arm::none, std::memory_order_release);
}

void CompletionSlot::notify() {
  context_.channels.notify(channel_, channel_generation_,
                           {cq_.user_handle, index_, cq_.generation.load(std::memory_order_relaxed)});
  u32 mine = context_.slot;  // another's mark stays: its event is still to come
  cq_.firing.compare_exchange_strong(mine, 0, std::memory_order_release, std::memory_order_relaxed);
}

CompletionSlot::~CompletionSlot() {
  if (locked_) ipc::unlock(cq_.lock);
  if (fires_) [[unlikely]]
    notify();
  if (!overrun_) [[likely]]
    return;
  context_.events.add(ipc::ObjectKind::cq, index_, cq_.generation.load(std::memory_order_relaxed), AsyncEvent::cq_err);
  fail_users(context_, index_);
}

void describe_receive(ib_uverbs_wc& wc, const ipc::Qp& qp, u64 wr_id, WcStatus status) {
  wc.wr_id = wr_id;
  wc.status = static_cast<u32>(status);
  wc.opcode = static_cast<u32>(WcOpcode::recv);
  wc.qp_num = qp.qpn;
  wc.port_num = qp.av.port_num;
  if (status == WcStatus::wr_flush_err) wc.vendor_err = vendor_err_flush;
}

void push_flushed_receive(Context& context, const ipc::Qp& qp, u64 wr_id) {
  CompletionSlot slot(context, qp.recv_cq);
  if (!slot.entry()) return;
  describe_receive(*slot.entry(), qp, wr_id, WcStatus::wr_flush_err);
  slot.publish(Solicit::yes);
}

}  // namespace softib::hca
