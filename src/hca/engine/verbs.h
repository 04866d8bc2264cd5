// The verbs' own numbers (infiniband/verbs.h, kernel uapi) as distinct types for the engine.
#pragma once

#include "base/types.h"

namespace softib::hca {

enum class WrOpcode : u32 {  // enum ibv_wr_opcode
  rdma_write = 0,
  rdma_write_with_imm,
  send,
  send_with_imm,
  rdma_read,
  compare_swap,
  fetch_add,
  local_inv,
  bind_mw,
  send_with_inv,
  flush = 14,
  atomic_write = 15,
};

enum class WcOpcode : u32 {  // enum ibv_wc_opcode
  send = 0,
  rdma_write,
  rdma_read,
  compare_swap,
  fetch_add,
  bind_mw,
  local_inv,
  flush = 8,
  atomic_write = 9,
  recv = 128,
  recv_rdma_with_imm = 129,
};

enum class WcStatus : u32 {  // enum ibv_wc_status
  success = 0,
  loc_len_err,
  loc_qp_op_err,
  loc_eec_op_err,
  loc_prot_err,
  wr_flush_err,
  mw_bind_err,
  bad_resp_err,
  loc_access_err,
  rem_inv_req_err,
  rem_access_err,
  rem_op_err,
  retry_exc_err,
  rnr_retry_exc_err,
};

enum SendFlag : u32 {  // enum ibv_send_flags
  send_fence = 1,
  send_signaled = 2,
  send_solicited = 4,
  send_inline = 8,
};

enum WcFlag : u32 { wc_grh = 1, wc_with_imm = 2, wc_with_inv = 8 };

enum Access : u32 {  // enum ibv_access_flags
  access_local_write = 1,
  access_remote_write = 2,
  access_remote_read = 4,
  access_remote_atomic = 8,
  access_mw_bind = 16,
  access_zero_based = 32,
  access_on_demand = 64,
  access_flush_global = 1 << 8,
  access_flush_persistent = 1 << 9,
};

enum class AsyncEvent : u32 {  // enum ibv_event_type
  cq_err = 0,
  qp_fatal,
  qp_req_err,
  qp_access_err,
  comm_est,
  sq_drained,
  path_mig,
  path_mig_err,
  device_fatal,
  port_active,
  port_err,
  lid_change,
  pkey_change,
  sm_change,
  srq_err,
  srq_limit_reached,
  qp_last_wqe_reached,
  client_reregister,
  gid_change,
};

// What mlx5 reports beside a status; programs print it, some look for 0x81.
inline constexpr u32 vendor_err_retry = 0x81;
inline constexpr u32 vendor_err_rnr = 0x87;
inline constexpr u32 vendor_err_flush = 0xf9;
inline constexpr u32 vendor_err_access = 0x88;

}  // namespace softib::hca
