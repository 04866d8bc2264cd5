// The rxe rings and work queue elements, as rdma/rdma_user_rxe.h defines them for C.
//
// That header's flexible arrays stand in unions beside an empty struct, which has size 0 in C and 1 in C++: a C++
// program that uses its rxe_dma_info, rxe_send_wqe or rxe_recv_wqe reads the SGEs 8 bytes too far. So these three are
// written out here; everything else of the header is used as it is.
#pragma once

#include <netinet/in.h>  // before the kernel's headers, which then define nothing of it again

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include <cstddef>

#include "base/types.h"

namespace softib::abi {

// A ring's head (struct rxe_queue_buf): producer and consumer lie in lines of their own.
//
//   0      log2_elem_size, index_mask
//   128    producer_index
//   256    consumer_index
//   384    data: (index_mask + 1) elements of 1 << log2_elem_size bytes
inline constexpr u64 ring_head_size = 384;
static_assert(offsetof(rxe_queue_buf, producer_index) == 128);
static_assert(offsetof(rxe_queue_buf, consumer_index) == 256);
static_assert(offsetof(rxe_queue_buf, data) == ring_head_size);

// The scatter/gather part of a work queue element; `num_sge` rxe_sge, or inline bytes, follow it.
struct DmaInfo {
  u32 length;
  u32 resid;
  u32 cur_sge;
  u32 num_sge;
  u32 sge_offset;
  u32 reserved;
};
static_assert(sizeof(DmaInfo) == 24);

struct SendWqe {
  rxe_send_wr wr;
  u32 status;
  u32 state;
  u64 iova;
  u32 mask;
  u32 first_psn;  // here and in the next the kernel keeps its own; providers write zeroes
  u32 last_psn;
  u32 ack_length;
  u32 ssn;
  u32 has_rd_atomic;
  DmaInfo dma;

  [[nodiscard]] const rxe_sge* sges() const { return reinterpret_cast<const rxe_sge*>(this + 1); }
  [[nodiscard]] const u8* inline_data() const { return reinterpret_cast<const u8*>(this + 1); }
};
static_assert(offsetof(SendWqe, dma) == offsetof(rxe_send_wqe, dma));
static_assert(sizeof(SendWqe) == offsetof(SendWqe, dma) + sizeof(DmaInfo));

struct RecvWqe {
  u64 wr_id;
  u32 reserved;
  u32 padding;
  DmaInfo dma;

  [[nodiscard]] const rxe_sge* sges() const { return reinterpret_cast<const rxe_sge*>(this + 1); }
};
static_assert(offsetof(RecvWqe, dma) == offsetof(rxe_recv_wqe, dma) && sizeof(RecvWqe) == 40);

static_assert(sizeof(rxe_sge) == 16);
static_assert(sizeof(ib_uverbs_wc) == 48);

}  // namespace softib::abi
