// Adding to completion queues.
#pragma once

#include "abi/rxe.h"
#include "hca/engine/context.h"

namespace softib::hca {

enum class Solicit : u8 { no, yes };  // whether a CQ armed for solicited completions only should fire

// Where a completion is about to be written: told to the responder's record before publication, so that a death in
// between can be repaired (segment.h, Responder::claimed).
struct ClaimMark {
  ipc::Qp::Responder* responder = nullptr;
};

// Appends one completion to a CQ: taken with the CQ's lock, filled in place, published; the end of the object's life
// fires the completion event if the CQ is armed for it. An overrun marks the CQ, raises CQ_ERR and takes the CQ's QPs
// to ERR (QP_FATAL). Make it with no CQ lock held.
//
// In place, because a completion that is put together field by field and copied at once makes the copy wait until the
// fields have left the store buffer.
class CompletionSlot {
 public:
  CompletionSlot(Context& context, u32 cq_index, ClaimMark mark = {});
  ~CompletionSlot();
  CompletionSlot(const CompletionSlot&) = delete;
  CompletionSlot& operator=(const CompletionSlot&) = delete;

  // The entry, zeroed; nullptr: the CQ takes no more.
  [[nodiscard]] ib_uverbs_wc* entry() const { return entry_; }
  void publish(Solicit solicit);

 private:
  void take(ClaimMark mark);
  void fire_if_armed(bool wakes_solicited);
  void notify();

  Context& context_;
  ipc::Cq& cq_;
  u32 index_;
  bool locked_;
  bool overrun_ = false;
  bool fires_ = false;
  ib_uverbs_wc* entry_ = nullptr;
  u32 channel_ = 0;
  u32 channel_generation_ = 0;
};

// The completion of a receive work request of `qp`, in a zeroed entry.
void describe_receive(ib_uverbs_wc& wc, const ipc::Qp& qp, u64 wr_id, WcStatus status);

// Appends one with WR_FLUSH_ERR.
void push_flushed_receive(Context& context, const ipc::Qp& qp, u64 wr_id);

}  // namespace softib::hca
