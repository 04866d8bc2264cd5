// Taking QPs to their error states, and flushing what they hold.
#pragma once

#include "hca/engine/context.h"

namespace softib::hca {

// State -> ERR from any state that can still move data. False: it was there already, or holds nothing (RESET, INIT on
// its way out, destroyed).
bool enter_error(ipc::Qp& qp);

// A send error of UC or UD stops the send queue only (IBTA 10.3.1: SQE); RC goes to ERR. Gives the new state.
void enter_send_error(ipc::Qp& qp);

// Has the owner's helper thread look at the QP: flush its send queue, watch its receive queue.
void wake_owner(Context& context, const ipc::Qp& qp);

// Completes all receives that stand in the QP's own receive queue, and one that was claimed by a sender that died, with
// WR_FLUSH_ERR. On an SRQ: raises LAST_WQE_REACHED once instead. Takes the responder's lock. The number flushed.
u32 flush_receives(Context& context, ipc::Qp& qp);

// The same with the lock held by the caller.
u32 flush_receives_locked(Context& context, ipc::Qp& qp);

}  // namespace softib::hca
