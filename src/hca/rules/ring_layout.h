// Sizes of the rxe rings: a head, then a power of two of slots. One slot stays empty, so that full and empty differ.
#pragma once

#include "base/types.h"
#include "ipc/protocol.h"

namespace softib::hca {

struct RingLayout {
  u32 slots = 0;  // 0: no ring
  u8 log2_size = 0;

  [[nodiscard]] u32 mask() const { return slots - 1; }
  [[nodiscard]] u32 entries() const { return slots - 1; }
  [[nodiscard]] u64 bytes() const;  // with its head, not rounded to pages
};

[[nodiscard]] RingLayout cq_layout(u32 entries);
[[nodiscard]] RingLayout receive_layout(u32 max_wr, u32 max_sge);  // receive queue or SRQ
[[nodiscard]] RingLayout send_layout(u32 max_wr, u32 max_sge, u32 max_inline);

struct QpLayout {
  ipc::QpCaps granted;
  RingLayout send;
  RingLayout receive;  // no slots when the QP has an SRQ
};

// EINVAL: more than the limits allow.
[[nodiscard]] Result<QpLayout> plan_qp(const ipc::QpCaps& asked, bool with_srq);

}  // namespace softib::hca
