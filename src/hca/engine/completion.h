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

// Appends `wc` and fires the completion event if the CQ is armed for it. An overrun marks the CQ, raises CQ_ERR and
// takes the CQ's QPs to ERR (QP_FATAL); call it with no CQ lock held.
void push_completion(Context& context, u32 cq_index, const ib_uverbs_wc& wc, Solicit solicit, ClaimMark mark = {});

// The completion of a receive work request of `qp`.
ib_uverbs_wc receive_completion(const ipc::Qp& qp, u64 wr_id, WcStatus status);

}  // namespace softib::hca
