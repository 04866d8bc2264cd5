// Asking the agent thread of another process to touch its own memory, and answering such requests.
#pragma once

#include "hca/engine/peer_memory.h"
#include "ipc/segment.h"

namespace softib::hca {

// A request to the owner of `ref`: reads into / writes from `local` (ref.length bytes, any), or an atomic (local
// unused). ESRCH: no such process; ETIMEDOUT: it does not answer.
Result<u64> ask_agent(ipc::Segment& segment, u32 own_slot, const MemoryRef& ref, ipc::AgentOp op, u8* local,
                      u64 first_operand, u64 second_operand);

// Answers the request in this process's mailbox, if there is one. Memory is touched in a way that survives addresses
// that are not mapped (EFAULT to the asker).
void answer_agent(ipc::Segment& segment, u32 own_slot);

// Wakes the helper thread of a process.
void kick(ipc::Process& process);

}  // namespace softib::hca
