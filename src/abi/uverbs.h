// The kernel's uverbs interface, with the layout that this code relies on.
#pragma once

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstddef>

#include "base/types.h"

namespace softib::abi {

template <typename T, size_t size, size_t alignment>
inline constexpr bool laid_out = sizeof(T) == size && alignof(T) == alignment;

// Headers.
static_assert(laid_out<ib_uverbs_ioctl_hdr, 24, 8> && laid_out<ib_uverbs_attr, 16, 8>);
static_assert(offsetof(ib_uverbs_attr, flags) == 4 && offsetof(ib_uverbs_attr, data) == 8);
static_assert(laid_out<ib_uverbs_cmd_hdr, 8, 4> && laid_out<ib_uverbs_ex_cmd_hdr, 16, 8>);
static_assert(RDMA_VERBS_IOCTL == 0xc0181b01);

// Context, device, port.
static_assert(laid_out<ib_uverbs_get_context, 8, 8> && laid_out<ib_uverbs_get_context_resp, 8, 8>);
static_assert(laid_out<ib_uverbs_query_device, 8, 8> && laid_out<ib_uverbs_query_device_resp, 176, 8>);
static_assert(laid_out<ib_uverbs_ex_query_device, 8, 4>);
static_assert(offsetof(ib_uverbs_ex_query_device_resp, response_length) == 180);
static_assert(laid_out<ib_uverbs_query_port, 16, 8> && laid_out<ib_uverbs_query_port_resp, 40, 4>);
static_assert(laid_out<ib_uverbs_query_port_resp_ex, 48, 4> && laid_out<ib_uverbs_gid_entry, 32, 8>);
static_assert(laid_out<ib_uverbs_async_event_desc, 16, 8> && laid_out<ib_uverbs_comp_event_desc, 8, 8>);

// Memory.
static_assert(laid_out<ib_uverbs_alloc_pd, 8, 8> && laid_out<ib_uverbs_alloc_pd_resp, 4, 4>);
static_assert(laid_out<ib_uverbs_reg_mr, 40, 8> && laid_out<ib_uverbs_reg_mr_resp, 12, 4>);
static_assert(laid_out<ib_uverbs_rereg_mr, 48, 8> && laid_out<ib_uverbs_rereg_mr_resp, 8, 8>);
static_assert(laid_out<ib_uverbs_alloc_mw, 16, 8> && laid_out<ib_uverbs_alloc_mw_resp, 8, 8>);
static_assert(laid_out<ib_uverbs_sge, 16, 8>);

// Completion queues.
static_assert(laid_out<ib_uverbs_create_cq, 32, 8> && laid_out<ib_uverbs_create_cq_resp, 8, 8>);
static_assert(laid_out<ib_uverbs_ex_create_cq, 32, 8> && laid_out<ib_uverbs_ex_create_cq_resp, 16, 8>);
static_assert(laid_out<ib_uverbs_resize_cq, 16, 8> && laid_out<ib_uverbs_resize_cq_resp, 8, 8>);
static_assert(laid_out<ib_uverbs_poll_cq, 16, 8> && laid_out<ib_uverbs_poll_cq_resp, 8, 8>);
static_assert(laid_out<ib_uverbs_wc, 48, 8> && laid_out<ib_uverbs_req_notify_cq, 8, 4>);
static_assert(laid_out<ib_uverbs_destroy_cq, 16, 8> && laid_out<ib_uverbs_destroy_cq_resp, 8, 4>);

// Queue pairs.
static_assert(laid_out<ib_uverbs_create_qp, 56, 8> && laid_out<ib_uverbs_create_qp_resp, 32, 4>);
static_assert(laid_out<ib_uverbs_ex_create_qp, 64, 8> && laid_out<ib_uverbs_ex_create_qp_resp, 40, 4>);
static_assert(laid_out<ib_uverbs_qp_dest, 32, 4> && laid_out<ib_uverbs_qp_cap, 20, 4>);
static_assert(laid_out<ib_uverbs_modify_qp, 112, 8> && laid_out<ib_uverbs_ex_modify_qp, 120, 8>);
static_assert(laid_out<ib_uverbs_query_qp, 16, 8> && laid_out<ib_uverbs_query_qp_resp, 128, 8>);
static_assert(laid_out<ib_uverbs_post_send, 24, 8> && laid_out<ib_uverbs_post_send_resp, 4, 4>);

// Shared receive queues, address handles, multicast.
static_assert(laid_out<ib_uverbs_create_srq, 32, 8> && laid_out<ib_uverbs_create_xsrq, 48, 8>);
static_assert(laid_out<ib_uverbs_create_srq_resp, 16, 4> && laid_out<ib_uverbs_modify_srq, 16, 8>);
static_assert(laid_out<ib_uverbs_query_srq, 16, 8> && laid_out<ib_uverbs_query_srq_resp, 16, 4>);
static_assert(laid_out<ib_uverbs_create_ah, 56, 8> && laid_out<ib_uverbs_create_ah_resp, 4, 4>);
static_assert(laid_out<ib_uverbs_attach_mcast, 24, 8> && laid_out<ib_uverbs_detach_mcast, 24, 8>);

}  // namespace softib::abi
