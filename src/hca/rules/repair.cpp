#include "hca/rules/repair.h"

#include <algorithm>

#include "hca/engine/ring.h"
#include "hca/engine/verbs.h"
#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

constexpr u32 idle = 0;  // AgentMailbox::state
constexpr u32 posted = 1;
constexpr u32 taken = 1;  // Responder::claimed
constexpr u32 completing = 2;

bool held_by(const ipc::SharedLock& lock, u32 slot) { return lock.holder.load(std::memory_order_acquire) == slot; }

u32 bounded(const std::atomic<u32>& limit, u32 most) { return std::min(limit.load(std::memory_order_acquire), most); }

// A record that a hostile or broken process wrote over must not lead outside the arena.
bool lies_in_arena(u64 offset, u32 mask, u32 log2_size) {
  u64 bytes = abi::ring_head_size + ((u64{mask} + 1) << std::min(log2_size, 20U));
  return offset != 0 && offset % ipc::page_size == 0 && offset < ipc::arena_size && bytes <= ipc::arena_size - offset;
}

bool is_usable(const ipc::Cq& cq) { return lies_in_arena(cq.ring, cq.mask, cqe_log2_size); }

class Repair {
 public:
  Repair(ipc::Segment& segment, u32 slot, RepairSink& sink) : segment_(segment), slot_(slot), sink_(sink) {}

  bool run() {
    // Receives first: whether one was completed can be read only while its CQ's lock is still the dead one's.
    repair_qps();
    release_srqs();
    release_cqs();
    release_mailboxes();
    return complete_;
  }

 private:
  void repair_qps() {
    u32 limit = bounded(segment_.header.qp_limit, ipc::max_qps);
    for (u32 qpn = 1; qpn < limit; ++qpn) {
      ipc::Qp& qp = segment_.qps[qpn];
      if (!held_by(qp.responder.lock, slot_)) continue;
      if (finish_receive(qp))
        ipc::unlock(qp.responder.lock);
      else
        complete_ = false;
    }
  }

  // False: must wait for the CQ.
  bool finish_receive(ipc::Qp& qp) {
    u32 claimed = qp.responder.claimed.load(std::memory_order_acquire);
    bool lost = (claimed == taken && was_consumed(qp)) || (claimed == completing && !was_published(qp));
    if (lost && !flush(qp)) return false;
    qp.responder.claimed.store(0, std::memory_order_release);
    if (qp.srq == 0 && has_receive_ring(qp)) qp.responder.consumer = receive_ring(qp).consumer();
    return true;
  }

  static bool has_receive_ring(const ipc::Qp& qp) { return lies_in_arena(qp.rq_ring, qp.rq_mask, 0); }
  Ring receive_ring(const ipc::Qp& qp) { return {segment_, qp.rq_ring, qp.rq_mask}; }

  bool was_consumed(const ipc::Qp& qp) {
    if (qp.srq == 0) return has_receive_ring(qp) && receive_ring(qp).consumer() == (qp.responder.consumer & qp.rq_mask);
    const ipc::Srq& srq = segment_.srqs[qp.srq & (ipc::max_srqs - 1)];
    if (!held_by(srq.lock, slot_)) return true;  // let go after the consumer was moved
    if (!lies_in_arena(srq.ring, srq.mask, 0)) return false;
    return Ring(segment_, srq.ring, srq.mask).consumer() == (qp.responder.consumer & srq.mask);
  }

  bool was_published(const ipc::Qp& qp) {
    const ipc::Cq& cq = cq_of(qp);
    if (!held_by(cq.lock, slot_) || !is_usable(cq)) return true;
    return Ring(segment_, cq.ring, cq.mask).producer() != (qp.responder.claimed_cqe & cq.mask);
  }

  ipc::Cq& cq_of(const ipc::Qp& qp) { return segment_.cqs[qp.recv_cq & (ipc::max_cqs - 1)]; }

  bool flush(const ipc::Qp& qp) {
    ipc::Cq& cq = cq_of(qp);
    if (cq.generation.load(std::memory_order_acquire) == 0 || !is_usable(cq)) return true;  // nobody left to tell
    if (!held_by(cq.lock, slot_) && !ipc::try_lock(cq.lock, daemon_lock_holder)) return false;
    push_flushed(qp, cq);
    ipc::unlock(cq.lock);
    return true;
  }

  void push_flushed(const ipc::Qp& qp, ipc::Cq& cq) {
    Ring ring(segment_, cq.ring, cq.mask);
    cq.producer = ring.producer();
    cq.consumer_cache = ring.consumer();
    u32 index = qp.recv_cq & (ipc::max_cqs - 1);
    if (cq.overrun.load(std::memory_order_relaxed)) return;
    if (ring.next(cq.producer) == cq.consumer_cache) {
      if (cq.overrun.exchange(1) == 0) sink_.cq_overrun(index);
      return;
    }
    ib_uverbs_wc wc{};
    wc.wr_id = qp.responder.claimed_wr_id;
    wc.status = static_cast<u32>(WcStatus::wr_flush_err);
    wc.opcode = static_cast<u32>(WcOpcode::recv);
    wc.vendor_err = vendor_err_flush;
    wc.qp_num = qp.qpn;
    wc.port_num = qp.av.port_num;
    *ring.at<ib_uverbs_wc>(cq.producer, cqe_log2_size) = wc;
    cq.producer = ring.next(cq.producer);
    ring.set_producer(cq.producer);
    // An error completion counts as solicited.
    if (cq.arm.exchange(ipc::Arm::none) != ipc::Arm::none) sink_.completion_event(index);
  }

  void release_srqs() {
    u32 limit = bounded(segment_.header.srq_limit, ipc::max_srqs);
    for (u32 index = 1; index < limit; ++index)
      if (held_by(segment_.srqs[index].lock, slot_)) ipc::unlock(segment_.srqs[index].lock);
  }

  void release_cqs() {
    u32 limit = bounded(segment_.header.cq_limit, ipc::max_cqs);
    for (u32 index = 1; index < limit; ++index) {
      ipc::Cq& cq = segment_.cqs[index];
      const bool fires = owes_event(cq);
      if (fires) cq.firing.store(0, std::memory_order_relaxed);
      if (held_by(cq.lock, slot_)) {
        if (is_usable(cq)) cq.producer = Ring(segment_, cq.ring, cq.mask).producer();
        if (fires) cq.arm.store(ipc::Arm::none, std::memory_order_relaxed);
        ipc::unlock(cq.lock);
      }
      if (fires) sink_.completion_event(index);
    }
  }

  // It had disarmed the CQ and not yet written the event, or added a completion and not yet looked whether the CQ is
  // armed. An event too many does no harm; one too few lets its program sleep for ever.
  bool owes_event(const ipc::Cq& cq) {
    if (cq.firing.load(std::memory_order_acquire) == slot_) return true;
    if (!held_by(cq.lock, slot_) || cq.arm.load(std::memory_order_relaxed) == ipc::Arm::none) return false;
    if (!is_usable(cq)) return false;
    Ring ring(segment_, cq.ring, cq.mask);
    return ring.consumer() != ring.producer();
  }

  void release_mailboxes() {
    u32 limit = bounded(segment_.header.process_limit, ipc::max_processes);
    for (u32 index = 1; index < limit; ++index) {
      ipc::Process& process = segment_.processes[index];
      if (!held_by(process.agent.lock, slot_)) continue;
      bool live = process.state.load(std::memory_order_acquire) == ipc::ProcessState::live;
      // The owner is about to answer: with the mailbox handed on now, the next asker would get that answer.
      if (live && process.agent.state.load(std::memory_order_acquire) == posted) {
        complete_ = false;
        continue;
      }
      process.agent.state.store(idle, std::memory_order_release);
      ipc::unlock(process.agent.lock);
    }
  }

  ipc::Segment& segment_;
  u32 slot_;
  RepairSink& sink_;
  bool complete_ = true;
};

}  // namespace

bool repair_after_death(ipc::Segment& segment, u32 slot, RepairSink& sink) { return Repair(segment, slot, sink).run(); }

}  // namespace softib::hca
