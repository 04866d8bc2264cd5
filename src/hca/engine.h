// Carrying out work requests: the posting thread is the HCA.
//
// One Engine per process. The shim calls it at each doorbell and control call; it moves bytes, writes completions into
// CQ rings, and has one helper thread for what must happen later (RNR and time-out retries, requests from peers for
// memory that only this process can reach). The helper sleeps in a futex while there is nothing of that.
#pragma once

#include <memory>

#include "base/types.h"
#include "hca/memory.h"
#include "ipc/client.h"
#include "ipc/segment.h"

namespace softib::hca {

class Engine {
 public:
  // `slot` is this process's in the segment; `segment` and `client` outlive the engine. `memory_fd` is this process's
  // memory file (hca/memory.h).
  static std::unique_ptr<Engine> create(ipc::Segment& segment, ipc::Client& client, u32 slot, int memory_fd);
  virtual ~Engine() = default;

  // The doorbell: carries out what stands in the QP's send ring. 0, or the errno for post_send:
  // EINVAL: no such QP in this context, or its state forbids posting (the ring entries are then taken back).
  virtual int doorbell(u32 qpn, u32 context) = 0;

  // After softibd changed a QP's state: resets rings (RESET), flushes (ERR), starts queued work (RTS), reports the end
  // of draining (SQD). Returns when no other process is at work on the QP in its old state.
  virtual void qp_modified(u32 qpn, ipc::QpState from, ipc::QpState to) = 0;

  // After softibd made the QP / MR / MW unusable and before its memory is given back.
  virtual void qp_destroyed(u32 qpn) = 0;
  virtual void wait_quiescent() = 0;

  // ibv_req_notify_cq. EINVAL: no such CQ in this context.
  virtual int arm_cq(u32 cq, u32 context, bool solicited_only) = 0;

  // ibv_poll_cq and ibv_post_recv by command, for programs on the old interface, are not here: the rxe provider works
  // on the rings.

  // Moves the waiting entries of a CQ / SRQ into a new ring under its lock. EINVAL: they don't fit.
  virtual Result<void> move_cq_ring(u32 cq, u64 new_ring, u32 new_mask) = 0;
  virtual Result<void> move_srq_ring(u32 srq, u64 new_ring, u32 new_mask) = 0;

  // An SRQ's limit was armed: raises the event at once when the queue is already below it.
  virtual void srq_limit_armed(u32 srq) = 0;

  // Peers may have to ask this process for its memory (a region was registered that is not wholly on the memory file):
  // starts the helper thread, which answers.
  virtual void serve_peers() = 0;

  // The helper thread, for ProcessMemory::set_own_thread().
  virtual OwnThread& helper_thread() = 0;

  // In the child of a fork: the helper thread does not exist here; nothing of the parent's is touched.
  virtual void abandon() = 0;
};

}  // namespace softib::hca
