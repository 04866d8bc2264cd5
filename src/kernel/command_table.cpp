// The write commands.
#include "kernel/methods/handlers.h"
#include "kernel/tables.h"

namespace softib::kernel {

namespace {

using Handler = Result<void> (*)(Interpreter&, Command&);

struct Nothing {};

// A plain command: one with a response says in its request where that goes.
template <typename Request, typename Response = Nothing>
constexpr CommandRow plain(u32 command, const char* name, Handler handler, bool driver_data = false) {
  bool answers = !std::is_same_v<Response, Nothing>;
  bool needs_context = command != IB_USER_VERBS_CMD_GET_CONTEXT;
  return {command, name, size_of<Request>, size_of<Response>, answers, driver_data, needs_context, handler};
}

template <typename Request, typename Response = Nothing>
constexpr CommandRow with_driver(u32 command, const char* name, Handler handler) {
  return plain<Request, Response>(command, name, handler, true);
}

// An extended command: the sizes are those of the oldest versions of its structures.
constexpr CommandRow extended(u32 command, const char* name, size_t request, size_t response, Handler handler) {
  return {command | IB_USER_VERBS_CMD_FLAG_EXTENDED,
          name,
          static_cast<u16>(request),
          static_cast<u16>(response),
          false,
          true,
          true,
          handler};
}

#define SOFTIB_END_OF(type, member) (offsetof(type, member) + sizeof(type::member))

constexpr CommandRow command_rows[] = {
    with_driver<ib_uverbs_get_context, ib_uverbs_get_context_resp>(IB_USER_VERBS_CMD_GET_CONTEXT, "get_context",
                                                                   methods::get_context),
    plain<ib_uverbs_query_device, ib_uverbs_query_device_resp>(IB_USER_VERBS_CMD_QUERY_DEVICE, "query_device",
                                                               methods::query_device),
    plain<ib_uverbs_query_port, ib_uverbs_query_port_resp>(IB_USER_VERBS_CMD_QUERY_PORT, "query_port",
                                                           methods::query_port),
    with_driver<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp>(IB_USER_VERBS_CMD_ALLOC_PD, "alloc_pd", methods::alloc_pd),
    plain<ib_uverbs_dealloc_pd>(IB_USER_VERBS_CMD_DEALLOC_PD, "dealloc_pd", methods::dealloc_pd),
    with_driver<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(IB_USER_VERBS_CMD_CREATE_AH, "create_ah",
                                                               methods::create_ah),
    plain<ib_uverbs_destroy_ah>(IB_USER_VERBS_CMD_DESTROY_AH, "destroy_ah", methods::destroy_ah),
    with_driver<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>(IB_USER_VERBS_CMD_REG_MR, "reg_mr", methods::reg_mr),
    with_driver<ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp>(IB_USER_VERBS_CMD_REREG_MR, "rereg_mr", methods::rereg_mr),
    plain<ib_uverbs_dereg_mr>(IB_USER_VERBS_CMD_DEREG_MR, "dereg_mr", methods::dereg_mr),
    with_driver<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>(IB_USER_VERBS_CMD_ALLOC_MW, "alloc_mw", methods::alloc_mw),
    plain<ib_uverbs_dealloc_mw>(IB_USER_VERBS_CMD_DEALLOC_MW, "dealloc_mw", methods::dealloc_mw),
    plain<ib_uverbs_create_comp_channel, ib_uverbs_create_comp_channel_resp>(
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "create_comp_channel", methods::create_channel),
    with_driver<ib_uverbs_create_cq, ib_uverbs_create_cq_resp>(IB_USER_VERBS_CMD_CREATE_CQ, "create_cq",
                                                               methods::create_cq),
    with_driver<ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp>(IB_USER_VERBS_CMD_RESIZE_CQ, "resize_cq",
                                                               methods::resize_cq),
    plain<ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp>(IB_USER_VERBS_CMD_DESTROY_CQ, "destroy_cq",
                                                           methods::destroy_cq),
    plain<ib_uverbs_poll_cq, ib_uverbs_poll_cq_resp>(IB_USER_VERBS_CMD_POLL_CQ, "poll_cq", methods::poll_cq),
    plain<ib_uverbs_req_notify_cq>(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, "req_notify_cq", methods::request_notify),
    with_driver<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>(IB_USER_VERBS_CMD_CREATE_QP, "create_qp",
                                                               methods::create_qp),
    plain<ib_uverbs_query_qp, ib_uverbs_query_qp_resp>(IB_USER_VERBS_CMD_QUERY_QP, "query_qp", methods::query_qp),
    plain<ib_uverbs_modify_qp>(IB_USER_VERBS_CMD_MODIFY_QP, "modify_qp", methods::modify_qp),
    plain<ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp>(IB_USER_VERBS_CMD_DESTROY_QP, "destroy_qp",
                                                           methods::destroy_qp),
    plain<ib_uverbs_post_send, ib_uverbs_post_send_resp>(IB_USER_VERBS_CMD_POST_SEND, "post_send", methods::post_send),
    plain<ib_uverbs_attach_mcast>(IB_USER_VERBS_CMD_ATTACH_MCAST, "attach_mcast", methods::attach_multicast),
    plain<ib_uverbs_detach_mcast>(IB_USER_VERBS_CMD_DETACH_MCAST, "detach_mcast", methods::detach_multicast),
    with_driver<ib_uverbs_create_srq, ib_uverbs_create_srq_resp>(IB_USER_VERBS_CMD_CREATE_SRQ, "create_srq",
                                                                 methods::create_srq),
    with_driver<ib_uverbs_modify_srq>(IB_USER_VERBS_CMD_MODIFY_SRQ, "modify_srq", methods::modify_srq),
    plain<ib_uverbs_query_srq, ib_uverbs_query_srq_resp>(IB_USER_VERBS_CMD_QUERY_SRQ, "query_srq", methods::query_srq),
    plain<ib_uverbs_destroy_srq, ib_uverbs_destroy_srq_resp>(IB_USER_VERBS_CMD_DESTROY_SRQ, "destroy_srq",
                                                             methods::destroy_srq),
    with_driver<ib_uverbs_create_xsrq, ib_uverbs_create_srq_resp>(IB_USER_VERBS_CMD_CREATE_XSRQ, "create_xsrq",
                                                                  methods::create_srq_extended),

    extended(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, "query_device_ex", sizeof(ib_uverbs_ex_query_device),
             SOFTIB_END_OF(ib_uverbs_ex_query_device_resp, response_length), methods::query_device_extended),
    extended(IB_USER_VERBS_EX_CMD_CREATE_CQ, "create_cq_ex", sizeof(ib_uverbs_ex_create_cq),
             SOFTIB_END_OF(ib_uverbs_ex_create_cq_resp, response_length), methods::create_cq_extended),
    extended(IB_USER_VERBS_EX_CMD_CREATE_QP, "create_qp_ex", SOFTIB_END_OF(ib_uverbs_ex_create_qp, comp_mask),
             SOFTIB_END_OF(ib_uverbs_ex_create_qp_resp, response_length), methods::create_qp_extended),
    extended(IB_USER_VERBS_EX_CMD_MODIFY_QP, "modify_qp_ex", SOFTIB_END_OF(ib_uverbs_ex_modify_qp, base),
             SOFTIB_END_OF(ib_uverbs_ex_modify_qp_resp, response_length), methods::modify_qp_extended),
};

#undef SOFTIB_END_OF

}  // namespace

std::span<const CommandRow> command_table() { return command_rows; }

Result<const CommandRow*> find_command(u32 command) {
  if (command & ~(IB_USER_VERBS_CMD_COMMAND_MASK | IB_USER_VERBS_CMD_FLAG_EXTENDED)) return fail(EINVAL);
  for (const CommandRow& row : command_rows)
    if (row.command == command) return &row;
  return fail(EOPNOTSUPP);
}

}  // namespace softib::kernel
