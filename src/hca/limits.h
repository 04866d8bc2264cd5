// What a SoftIB HCA can do, in one place: softibd refuses what lies beyond, and the device attributes report it.
#pragma once

#include "base/types.h"
#include "ipc/segment.h"

namespace softib::hca::limits {

// QPNs 0 and 1 are the ports' special QPs, 2..16 stay reserved, 0xffffff is "all multicast members".
inline constexpr u32 first_qpn = 0x11;

inline constexpr u32 max_qp = 262'144;
inline constexpr u32 max_qp_wr = 16'384;  // send and receive queue
inline constexpr u32 max_sge = 32;        // of a send or receive
inline constexpr u32 max_sge_rd = 32;
inline constexpr u32 min_inline = 256;  // granted even when less is asked for
inline constexpr u32 max_inline = 1024;
inline constexpr u32 max_rd_atomic = 128;  // outstanding READs and atomics, as requester and as responder
inline constexpr u32 max_res_rd_atomic = max_rd_atomic * max_qp;

inline constexpr u32 max_cq = 262'144;
inline constexpr u32 max_cqe = 4'194'303;
inline constexpr u32 max_comp_vectors = 8;  // hints only: every vector leads to the same place

inline constexpr u32 max_srq = 65'535;
inline constexpr u32 max_srq_wr = 32'768;
inline constexpr u32 max_srq_sge = 32;

inline constexpr u64 max_ring_bytes = 1ULL << 28;  // the elements of a CQ of max_cqe, and of any other ring
inline constexpr u64 max_element_bytes = 2048;     // a send with max_inline

inline constexpr u32 max_mr = 1'048'576;
inline constexpr u32 max_mw = 1'048'575;
inline constexpr u64 max_mr_size = ~0ULL;
inline constexpr u32 max_pd = 32'764;
inline constexpr u32 max_ah = 262'144;

inline constexpr u32 max_mcast_groups = 8'192;
inline constexpr u32 max_mcast_qp_attach = 4'096;  // QPs on one group
inline constexpr u32 max_total_mcast_qp_attach = 4'194'304;

inline constexpr u32 max_message = 0x8000'0000;  // 2^31 bytes
inline constexpr u32 max_pkeys = ipc::max_pkeys_per_port;
inline constexpr u32 max_gids = ipc::max_gids_per_port;
inline constexpr u8 local_ca_ack_delay = 15;

// Every table holds what the limits promise, index 0 excepted.
static_assert(max_qp + first_qpn < ipc::max_qps && max_cq < ipc::max_cqs && max_srq < ipc::max_srqs);
static_assert(max_mr + max_mw < ipc::max_keys && max_ah < ipc::max_ahs && max_mcast_groups < ipc::max_groups);

}  // namespace softib::hca::limits
