// Making whole what a process left half-done when it died: locks that it held, and receives that it had begun.
//
// The data path keeps to this order, so that every instruction is a safe place to die:
//
//   take the QP's responder.lock
//     [SRQ: take srq.lock]
//     responder.consumer = index after the WQE   (own receive queue and SRQ alike)
//     claimed_wr_id = the WQE's wr_id; claimed = 1
//     ring.consumer_index = index after the WQE
//     [SRQ: release srq.lock]
//     copy the payload
//     take cq.lock; claimed_cqe = cq.producer; claimed = 2
//       write the CQE; ring.producer_index = next
//     release cq.lock
//     claimed = 0
//   release responder.lock
//
// So with claimed == 1 the WQE was taken if the ring's consumer_index has reached responder.consumer (or an SRQ's lock
// was let go since), and with claimed == 2 its completion is out if the CQ's lock is no longer held or the ring's
// producer_index has left claimed_cqe.
//
// Within cq.lock, after the producer_index: firing = own slot; arm = none. After its release: write the event;
// firing = 0. So an event that is owed shows as `firing`, or as an armed CQ with completions under the dead one's lock.
#pragma once

#include "ipc/segment.h"

namespace softib::hca {

// Holder of locks that softibd takes itself; no process slot.
inline constexpr u32 daemon_lock_holder = 0xffff'ffff;

class RepairSink {
 public:
  virtual ~RepairSink() = default;
  virtual void completion_event(u32 cq) = 0;  // the CQ was armed for what was added, by the dead or here
  virtual void cq_overrun(u32 cq) = 0;        // there was no room for it
};

// Releases all that `slot` held. A receive that the dead had taken and not completed completes with WR_FLUSH_ERR: the
// message is lost, the buffer goes back. False: some of it must wait for a lock that a live process holds; call again.
[[nodiscard]] bool repair_after_death(ipc::Segment& segment, u32 slot, RepairSink& sink);

}  // namespace softib::hca
