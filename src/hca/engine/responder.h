// The receiving side of a message, carried out by the sender: take a receive work request of the target, fill it, and
// complete it.
#pragma once

#include "hca/engine/buffers.h"

namespace softib::hca {

inline constexpr u32 grh_size = 40;

// A message that consumes a receive work request.
struct Delivery {
  WcOpcode opcode;  // recv or recv_rdma_with_imm
  u32 wc_flags;     // WcFlag
  u32 immediate;    // with wc_with_imm / wc_with_inv
  bool solicited;
  const Buffers* payload;  // nullptr: nothing goes to the receive buffers (RDMA WRITE with immediate)
  u64 byte_count;          // payload or RDMA length
  const u8* grh;           // UD: grh_size bytes that go first, else nullptr
  u32 src_qp;
  u16 slid;
  u8 sl;
  u8 dlid_path_bits;
};

enum class Delivered : u8 {
  done,
  no_receive,        // RNR
  too_long,          // completed LOC_LEN_ERR at the target
  protection_error,  // completed LOC_PROT_ERR at the target
  bad_invalidate,    // SEND with invalidate named a key that can't be: completed LOC_ACCESS_ERR at the target
  unreachable,       // the target's memory or state went away: nothing was completed
};

Delivered deliver(Context& context, ipc::Qp& target, const Delivery& message);

// The responder refuses a request that has no receive to report it in: QP to ERR, `event` to its owner.
void fail_responder(Context& context, ipc::Qp& target, AsyncEvent event);

// Whether a QP in this state takes requests.
bool accepts_requests(ipc::QpState state);

// First request of a connection while the target is in RTR: COMM_EST, once.
void note_established(Context& context, ipc::Qp& target, ipc::QpState state);

}  // namespace softib::hca
