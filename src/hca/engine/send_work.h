// One send work request, by transport.
#pragma once

#include "abi/rxe.h"
#include "hca/engine/buffers.h"
#include "hca/engine/outcome.h"

namespace softib::hca {

// A work request as it stands in the send ring.
struct SendWork {
  ipc::Qp& qp;
  abi::SendWqe& wqe;

  [[nodiscard]] WrOpcode opcode() const { return static_cast<WrOpcode>(wqe.wr.opcode); }
  [[nodiscard]] bool has(SendFlag flag) const { return wqe.wr.send_flags & flag; }
  // ibv_wr_set_inline_data sets no flag; it leaves a length and no SGE.
  [[nodiscard]] bool is_inline() const { return has(send_inline) || (wqe.dma.num_sge == 0 && wqe.dma.length > 0); }
};

// What a try gives to the completion and the retry logic. RC and UC:
Outcome carry_out_connected(Context& context, const SendWork& work);
// UD:
Outcome carry_out_datagram(Context& context, const SendWork& work);

// The local side: checks keys and lengths, and lists the pieces. `success` or the status to complete with.
WcStatus gather(Context& context, const SendWork& work, LocalUse use, Buffers& local);

// Adds to a counter that has one writer: the atomic is for its readers.
inline void add_alone(std::atomic<u64>& counter, u64 value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

}  // namespace softib::hca
