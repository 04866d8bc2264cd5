#include "hca/engine/completion.h"

#include <algorithm>
#include <cstring>

#include "hca/engine/qp_error.h"
#include "hca/engine/ring.h"
#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

enum class Pushed { done, overrun, dropped };

struct Firing {
  bool due = false;
  u32 channel = 0;
  u32 channel_generation = 0;
  ipc::CompletionRecord record{};
};

// With the CQ's lock held. The event is written later, without it; until then `firing` says who owes it, for
// repair_after_death().
void fire_if_armed(ipc::Cq& cq, u32 cq_index, u32 slot, bool wakes_solicited, Firing& firing) {
  ipc::Arm arm = cq.arm.load(std::memory_order_relaxed);
  if (arm == ipc::Arm::none) return;
  if (arm == ipc::Arm::solicited && !wakes_solicited) return;
  if (cq.channel) cq.firing.store(slot, std::memory_order_release);
  cq.arm.store(ipc::Arm::none, std::memory_order_release);
  if (!cq.channel) return;
  firing = {true,
            cq.channel,
            cq.channel_generation,
            {cq.user_handle, cq_index, cq.generation.load(std::memory_order_relaxed)}};
}

Pushed push_locked(Context& context, ipc::Cq& cq, const ib_uverbs_wc& wc, ClaimMark mark) {
  if (cq.overrun.load(std::memory_order_relaxed)) return Pushed::dropped;
  Ring ring(context.segment, cq.ring, cq.mask);
  u32 at = cq.producer & cq.mask;
  u32 next = ring.next(at);
  if (next == cq.consumer_cache) {
    cq.consumer_cache = ring.consumer();
    if (next == cq.consumer_cache) {
      cq.overrun.store(1, std::memory_order_relaxed);
      return Pushed::overrun;
    }
  }
  if (mark.responder) {
    mark.responder->claimed_cqe = at;
    mark.responder->claimed.store(2, std::memory_order_release);
  }
  std::memcpy(ring.at<ib_uverbs_wc>(at, cqe_log2_size), &wc, sizeof wc);
  cq.producer = next;
  ring.set_producer(next);
  return Pushed::done;
}

void notify(Context& context, ipc::Cq& cq, const Firing& firing) {
  context.channels.notify(firing.channel, firing.channel_generation, firing.record);
  u32 mine = context.slot;  // another's mark stays: its event is still to come
  cq.firing.compare_exchange_strong(mine, 0, std::memory_order_release, std::memory_order_relaxed);
}

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

void push_completion(Context& context, u32 cq_index, const ib_uverbs_wc& wc, Solicit solicit, ClaimMark mark) {
  ipc::Cq& cq = context.cq(cq_index);
  Firing firing;
  Pushed pushed;
  {
    ipc::LockGuard guard(cq.lock, context.slot);
    if (!guard.held()) return;
    pushed = push_locked(context, cq, wc, mark);
    // A completion in error counts as solicited (ibv_req_notify_cq(3)).
    bool wakes = solicit == Solicit::yes || wc.status != static_cast<u32>(WcStatus::success);
    if (pushed == Pushed::done) fire_if_armed(cq, cq_index, context.slot, wakes, firing);
  }
  if (firing.due) notify(context, cq, firing);
  if (pushed != Pushed::overrun) return;
  context.events.add(ipc::ObjectKind::cq, cq_index, cq.generation.load(std::memory_order_relaxed), AsyncEvent::cq_err);
  fail_users(context, cq_index);
}

ib_uverbs_wc receive_completion(const ipc::Qp& qp, u64 wr_id, WcStatus status) {
  ib_uverbs_wc wc{};
  wc.wr_id = wr_id;
  wc.status = static_cast<u32>(status);
  wc.opcode = static_cast<u32>(WcOpcode::recv);
  wc.qp_num = qp.qpn;
  wc.port_num = qp.av.port_num;
  if (status == WcStatus::wr_flush_err) wc.vendor_err = vendor_err_flush;
  return wc;
}

}  // namespace softib::hca
