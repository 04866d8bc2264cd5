// The connection manager's user interface as the kernel's headers define it, and the numbers of its events, which they
// leave to libraries.
#pragma once

#include <netinet/in.h>  // before the kernel's headers, which then define nothing of it again

#include <rdma/rdma_user_cm.h>

#include "base/types.h"

namespace softib::abi {

enum class CmEvent : u32 {
  address_resolved = 0,
  address_error,
  route_resolved,
  route_error,
  connect_request,
  connect_response,
  connect_error,
  unreachable,
  rejected,
  established,
  disconnected,
  device_removal,
  multicast_join,
  multicast_error,
  address_change,
  timewait_exit,
};

inline constexpr u32 rdma_udp_qkey = 0x01234567;  // RDMA_UDP_QKEY
inline constexpr u32 multicast_qpn = 0xffffff;

static_assert(sizeof(rdma_ucm_cmd_hdr) == 8);
static_assert(sizeof(rdma_ucm_create_id) == 24);
static_assert(sizeof(rdma_ucm_bind) == 136);
static_assert(sizeof(rdma_ucm_resolve_ip) == 64);
static_assert(sizeof(rdma_ucm_resolve_addr) == 272);
static_assert(sizeof(rdma_ucm_conn_param) == 272);
static_assert(sizeof(rdma_ucm_event_resp) == 336);
static_assert(sizeof(rdma_ucm_connect) == 288);
static_assert(sizeof(rdma_ucm_accept) == 296);
static_assert(sizeof(rdma_ucm_query_addr_resp) == 280);
static_assert(sizeof(ib_path_rec_data) == 72);
static_assert(sizeof(ib_uverbs_qp_attr) == 144);

}  // namespace softib::abi
