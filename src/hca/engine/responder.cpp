#include "hca/engine/responder.h"

#include <algorithm>
#include <cstring>

#include "hca/engine/completion.h"
#include "hca/engine/qp_error.h"
#include "hca/engine/ring.h"
#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

using ipc::QpState;

// A receive work request, copied out of its ring: the slot may be reused at once.
struct TakenReceive {
  u64 wr_id;
  u32 num_sge;
  u32 pd;
  rxe_sge sges[max_pieces];

  void take(const abi::RecvWqe& wqe, u32 granted_sges) {
    wr_id = wqe.wr_id;
    num_sge = std::min({wqe.dma.num_sge, granted_sges, max_pieces - 1});
    sges[0] = wqe.sges()[0];  // the usual one, without a call
    if (num_sge > 1) [[unlikely]]
      std::memcpy(sges, wqe.sges(), num_sge * sizeof(rxe_sge));
  }
};

// With the responder's lock held. What is about to be taken is recorded before the ring moves on: first where the ring
// will stand, then the claim (hca/rules/repair.h relies on the order).
void record_claim(ipc::Qp::Responder& responder, u64 wr_id, u32 next) {
  responder.consumer = next;
  responder.claimed_wr_id = wr_id;
  responder.claimed.store(1, std::memory_order_release);
}

bool take_own(Context& context, ipc::Qp& target, TakenReceive& taken) {
  auto& responder = target.responder;
  Ring ring(context.segment, target.rq_ring, target.rq_mask);
  u32 at = responder.consumer & target.rq_mask;
  if (at == responder.producer_cache) {
    responder.producer_cache = ring.producer();
    if (at == responder.producer_cache) return false;
  }
  taken.take(*ring.at<abi::RecvWqe>(at, target.rq_log2_size), target.max_recv_sge);
  taken.pd = target.pd;
  u32 next = ring.next(at);
  record_claim(responder, taken.wr_id, next);
  ring.set_consumer(next);
  __builtin_prefetch(ring.at<abi::RecvWqe>(next, target.rq_log2_size));
  return true;
}

// The armed limit fires once, when fewer receives are left than it names.
void check_limit(Context& context, ipc::Srq& srq, u32 index, u32 left) {
  u32 limit = srq.limit.load(std::memory_order_relaxed);
  if (limit == 0 || left >= limit) return;
  if (srq.limit.exchange(0, std::memory_order_relaxed) == 0) return;
  context.events.add(ipc::ObjectKind::srq, index, srq.generation.load(std::memory_order_relaxed),
                     AsyncEvent::srq_limit_reached);
}

bool take_shared(Context& context, ipc::Qp& target, TakenReceive& taken) {
  ipc::Srq& srq = context.srq(target.srq);
  ipc::LockGuard guard(srq.lock, context.slot);
  if (!guard.held()) return false;
  Ring ring(context.segment, srq.ring, srq.mask);
  u32 at = ring.consumer();
  u32 producer = ring.producer();
  if (at == producer) return false;
  taken.take(*ring.at<abi::RecvWqe>(at, receive_log2_size(srq.max_sge)), srq.max_sge);
  taken.pd = srq.pd;
  record_claim(target.responder, taken.wr_id, ring.next(at));
  ring.set_consumer(ring.next(at));
  check_limit(context, srq, target.srq, (producer - ring.next(at)) & srq.mask);
  return true;
}

// A receive that ends in an error takes its QP with it.
Delivered complete_failed(Context& context, ipc::Qp& target, u64 wr_id, WcStatus status, Delivered result) {
  {
    CompletionSlot slot(context, target.recv_cq, {&target.responder});
    if (slot.entry()) {
      describe_receive(*slot.entry(), target, wr_id, status);
      slot.entry()->vendor_err = vendor_err_access;
      slot.publish(Solicit::yes);
    }
  }
  target.responder.claimed.store(0, std::memory_order_release);
  if (enter_error(target)) {
    flush_receives_locked(context, target);
    wake_owner(context, target);
  }
  return result;
}

void describe_success(ib_uverbs_wc& wc, const ipc::Qp& target, u64 wr_id, const Delivery& message) {
  describe_receive(wc, target, wr_id, WcStatus::success);
  wc.opcode = static_cast<u32>(message.opcode);
  wc.byte_len = static_cast<u32>(message.byte_count + (message.grh || target.type == ipc::QpType::ud ? grh_size : 0));
  wc.wc_flags = message.wc_flags;
  wc.ex.invalidate_rkey = message.immediate;
  wc.src_qp = message.src_qp;
  wc.slid = message.slid;
  wc.sl = message.sl;
  wc.dlid_path_bits = message.dlid_path_bits;
  wc.pkey_index = target.pkey_index;
}

void complete(Context& context, ipc::Qp& target, u64 wr_id, const Delivery& message) {
  {
    CompletionSlot slot(context, target.recv_cq, {&target.responder});
    if (slot.entry()) {
      describe_success(*slot.entry(), target, wr_id, message);
      slot.publish(message.solicited ? Solicit::yes : Solicit::no);
    }
  }
  target.responder.claimed.store(0, std::memory_order_release);
}

Result<void> fill(Context& context, const Buffers& room, const Delivery& message, bool datagram) {
  if (message.grh) {
    Buffers header;
    header.next().refer_to_own(context.slot, message.grh, grh_size);
    header.added();
    if (auto moved = transfer(context, room, 0, header, grh_size); !moved) return moved;
  }
  return transfer(context, room, datagram ? grh_size : 0, *message.payload, message.byte_count);
}

// With the claim made.
Delivered fill_and_complete(Context& context, ipc::Qp& target, const TakenReceive& taken, const Delivery& message) {
  bool datagram = target.type == ipc::QpType::ud;
  if (message.payload) {
    u64 needed = message.byte_count + (datagram ? grh_size : 0);
    Buffers room;
    if (!add_sges(context, room, taken.sges, taken.num_sge, taken.pd, LocalUse::write, needed))
      return complete_failed(context, target, taken.wr_id, WcStatus::loc_prot_err, Delivered::protection_error);
    if (room.total < needed)
      return complete_failed(context, target, taken.wr_id, WcStatus::loc_len_err, Delivered::too_long);
    if (!fill(context, room, message, datagram))
      return complete_failed(context, target, taken.wr_id, WcStatus::loc_prot_err, Delivered::protection_error);
  }
  if ((message.wc_flags & wc_with_inv) && !invalidate_key(context, message.immediate, target))
    return complete_failed(context, target, taken.wr_id, WcStatus::loc_access_err, Delivered::bad_invalidate);
  complete(context, target, taken.wr_id, message);
  return Delivered::done;
}

}  // namespace

bool accepts_requests(QpState state) {
  return state == QpState::rtr || state == QpState::rts || state == QpState::sqd || state == QpState::sqe;
}

void note_established(Context& context, ipc::Qp& target, QpState state) {
  if (state != QpState::rtr || target.responder.established) return;
  target.responder.established = 1;
  context.raise(target, AsyncEvent::comm_est);
}

Delivered deliver(Context& context, ipc::Qp& target, const Delivery& message) {
  ipc::LockGuard guard(target.responder.lock, context.slot);
  if (!guard.held() || !accepts_requests(target.state.load(std::memory_order_acquire))) return Delivered::unreachable;
  TakenReceive taken;
  bool got = target.srq ? take_shared(context, target, taken) : take_own(context, target, taken);
  if (!got) return Delivered::no_receive;
  return fill_and_complete(context, target, taken, message);
}

void fail_responder(Context& context, ipc::Qp& target, AsyncEvent event) {
  if (!enter_error(target)) return;
  context.raise(target, event);
  flush_receives(context, target);
  wake_owner(context, target);
}

}  // namespace softib::hca
