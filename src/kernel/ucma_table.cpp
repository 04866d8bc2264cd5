#include "kernel/ucma_table.h"

#include <cstddef>

#include "ipc/protocol.h"
#include "kernel/buffers.h"

namespace softib::kernel {

namespace {

constexpr u16 end_of_connect = offsetof(rdma_ucm_connect, ece);
constexpr u16 end_of_accept = offsetof(rdma_ucm_accept, ece);
constexpr u16 oldest_route = offsetof(rdma_ucm_query_route_resp, ibdev_index);
constexpr u16 oldest_event = offsetof(rdma_ucm_event_resp, reserved);
constexpr u16 handle_size = sizeof(rdma_ucm_create_id_resp);
constexpr u16 count_size = sizeof(rdma_ucm_destroy_id_resp);
constexpr u16 any_size = ipc::RdmaCmCommand::most_out;

template <typename Request>
constexpr UcmaRow silent(u32 command, const char* name, u16 least = 0) {
  return {command, name, size_of<Request>, least, 0, 0, 0};
}

template <typename Request>
constexpr UcmaRow answered(u32 command, const char* name, u16 least_response, u16 response_size) {
  return {command, name, size_of<Request>, 0, least_response, response_size, offsetof(Request, response)};
}

constexpr UcmaRow ucma_rows[] = {
    answered<rdma_ucm_create_id>(RDMA_USER_CM_CMD_CREATE_ID, "create_id", handle_size, handle_size),
    answered<rdma_ucm_destroy_id>(RDMA_USER_CM_CMD_DESTROY_ID, "destroy_id", count_size, count_size),
    silent<rdma_ucm_bind_ip>(RDMA_USER_CM_CMD_BIND_IP, "bind_ip"),
    silent<rdma_ucm_resolve_ip>(RDMA_USER_CM_CMD_RESOLVE_IP, "resolve_ip"),
    silent<rdma_ucm_resolve_route>(RDMA_USER_CM_CMD_RESOLVE_ROUTE, "resolve_route"),
    answered<rdma_ucm_query>(RDMA_USER_CM_CMD_QUERY_ROUTE, "query_route", oldest_route,
                             size_of<rdma_ucm_query_route_resp>),
    silent<rdma_ucm_connect>(RDMA_USER_CM_CMD_CONNECT, "connect", end_of_connect),
    silent<rdma_ucm_listen>(RDMA_USER_CM_CMD_LISTEN, "listen"),
    silent<rdma_ucm_accept>(RDMA_USER_CM_CMD_ACCEPT, "accept", end_of_accept),
    silent<rdma_ucm_reject>(RDMA_USER_CM_CMD_REJECT, "reject"),
    silent<rdma_ucm_disconnect>(RDMA_USER_CM_CMD_DISCONNECT, "disconnect"),
    answered<rdma_ucm_init_qp_attr>(RDMA_USER_CM_CMD_INIT_QP_ATTR, "init_qp_attr", size_of<ib_uverbs_qp_attr>,
                                    size_of<ib_uverbs_qp_attr>),
    answered<rdma_ucm_get_event>(RDMA_USER_CM_CMD_GET_EVENT, "get_event", oldest_event, size_of<rdma_ucm_event_resp>),
    silent<rdma_ucm_set_option>(RDMA_USER_CM_CMD_SET_OPTION, "set_option"),
    silent<rdma_ucm_notify>(RDMA_USER_CM_CMD_NOTIFY, "notify"),
    answered<rdma_ucm_join_ip_mcast>(RDMA_USER_CM_CMD_JOIN_IP_MCAST, "join_ip_mcast", handle_size, handle_size),
    answered<rdma_ucm_destroy_id>(RDMA_USER_CM_CMD_LEAVE_MCAST, "leave_mcast", count_size, count_size),
    answered<rdma_ucm_migrate_id>(RDMA_USER_CM_CMD_MIGRATE_ID, "migrate_id", 0, size_of<rdma_ucm_migrate_resp>),
    answered<rdma_ucm_query>(RDMA_USER_CM_CMD_QUERY, "query", 0, any_size),
    silent<rdma_ucm_bind>(RDMA_USER_CM_CMD_BIND, "bind"),
    silent<rdma_ucm_resolve_addr>(RDMA_USER_CM_CMD_RESOLVE_ADDR, "resolve_addr"),
    answered<rdma_ucm_join_mcast>(RDMA_USER_CM_CMD_JOIN_MCAST, "join_mcast", handle_size, handle_size),
};

}  // namespace

Result<const UcmaRow*> find_ucma_row(u32 command) {
  if (command > RDMA_USER_CM_CMD_JOIN_MCAST) return fail(EINVAL);
  for (const UcmaRow& row : ucma_rows)
    if (row.command == command) return &row;
  return fail(ENOSYS);
}

}  // namespace softib::kernel
