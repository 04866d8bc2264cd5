#include "hca/rules/ring_layout.h"

#include <algorithm>
#include <bit>

#include "abi/rxe.h"
#include "hca/limits.h"

namespace softib::hca {

namespace {

RingLayout layout(u32 entries, u32 element_size) {
  u32 slots = std::bit_ceil(std::max(entries + 1, 2U));
  auto log2_size = static_cast<u8>(std::bit_width(element_size - 1));
  return {slots, log2_size};
}

bool beyond_limits(const ipc::QpCaps& asked, bool with_srq) {
  if (asked.max_send_wr > limits::max_qp_wr || asked.max_send_sge > limits::max_sge ||
      asked.max_inline > limits::max_inline)
    return true;
  return !with_srq && (asked.max_recv_wr > limits::max_qp_wr || asked.max_recv_sge > limits::max_sge);
}

}  // namespace

u64 RingLayout::bytes() const { return slots ? abi::ring_head_size + (static_cast<u64>(slots) << log2_size) : 0; }

RingLayout cq_layout(u32 entries) { return layout(entries, sizeof(ib_uverbs_wc)); }

RingLayout receive_layout(u32 max_wr, u32 max_sge) {
  return layout(max_wr, static_cast<u32>(sizeof(abi::RecvWqe) + max_sge * sizeof(rxe_sge)));
}

RingLayout send_layout(u32 max_wr, u32 max_sge, u32 max_inline) {
  auto sge_bytes = static_cast<u32>(max_sge * sizeof(rxe_sge));
  return layout(max_wr, static_cast<u32>(sizeof(abi::SendWqe)) + std::max(sge_bytes, max_inline));
}

Result<QpLayout> plan_qp(const ipc::QpCaps& asked, bool with_srq) {
  if (beyond_limits(asked, with_srq)) return fail(EINVAL);
  QpLayout plan;
  plan.granted.max_send_sge = std::max(asked.max_send_sge, 1U);
  plan.granted.max_inline = std::max(asked.max_inline, limits::min_inline);
  plan.send = send_layout(asked.max_send_wr, plan.granted.max_send_sge, plan.granted.max_inline);
  plan.granted.max_send_wr = plan.send.entries();
  if (with_srq) {
    plan.granted.max_recv_wr = plan.granted.max_recv_sge = 0;
    return plan;
  }
  plan.granted.max_recv_sge = std::max(asked.max_recv_sge, 1U);
  plan.receive = receive_layout(asked.max_recv_wr, plan.granted.max_recv_sge);
  plan.granted.max_recv_wr = plan.receive.entries();
  return plan;
}

}  // namespace softib::hca
