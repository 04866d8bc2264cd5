// The calls that the seed corpus holds: every row of both tables once as programs send it.
#pragma once

#include <map>
#include <string>

#include "harness.h"

namespace softib::kernel::testing {

// File name to contents.
using Corpus = std::map<std::string, std::vector<u8>>;

class SeedMaker {
 public:
  Corpus ioctls;
  Corpus writes;

  SeedMaker() {
    world_.make_objects();
    methods();
    simple_commands();
    memory_commands();
    queue_commands();
    qp_commands();
    sequences();
  }

 private:
  // The window as it is, without the zeroes at its end.
  std::vector<u8> contents(size_t length) {
    std::vector<u8> bytes = world_.window.used();
    while (!bytes.empty() && bytes.back() == 0) bytes.pop_back();
    CallHead head{static_cast<u16>(bytes.size()), static_cast<u16>(length)};
    std::vector<u8> seed(sizeof head + bytes.size());
    std::memcpy(seed.data(), &head, sizeof head);
    std::memcpy(seed.data() + sizeof head, bytes.data(), bytes.size());
    return seed;
  }

  void methods() {
    for (const MethodRow& row : method_table()) {
      world_.window.reset();
      IoctlCall call = well_formed(world_, row);
      if (row.driver_data) call.driver_out(sizeof(rxe_create_qp_resp));
      for (auto& attribute : call.attributes)
        if (attribute.len == sizeof(u32) && attribute.data == 0) attribute.data = 4;  // entries, limits
      if (row.object == UVERBS_OBJECT_QP && row.method == UVERBS_METHOD_QP_CREATE) complete_create_qp(call);
      call.store();
      ioctls[row.name] = contents(0);
    }
  }

  void complete_create_qp(IoctlCall& call) {
    for (auto& attribute : call.attributes)
      if (attribute.attr_id == UVERBS_ATTR_CREATE_QP_TYPE) attribute.data = IB_UVERBS_QPT_RC;
    call.handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, world_.pd);
    call.handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, world_.cq);
    call.handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, world_.cq);
  }

  template <typename Request, typename Response>
  void command(const std::string& name, u32 number, const Request& request, u16 driver_in = 0, u16 driver_out = 0,
               u64 driver_data = 0) {
    world_.window.reset();
    IoctlCall call(world_.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    CommandCall<Request, Response> inside(world_.window, number, request, driver_in, driver_out);
    inside.driver_data = driver_data;
    inside.build_invoke(call);
    call.store();
    ioctls["invoke_" + name] = contents(0);

    world_.window.reset();
    u64 base = world_.window.room(256);
    CommandCall<Request, Response> direct(world_.window, number, request, driver_in, driver_out);
    direct.driver_data = driver_data;
    std::vector<u8> bytes = direct.build_write();
    world_.window.set(base, bytes.data(), bytes.size());
    writes[name] = contents(bytes.size());
  }

  void simple_commands() {
    command<ib_uverbs_get_context, ib_uverbs_get_context_resp>("get_context", IB_USER_VERBS_CMD_GET_CONTEXT, {});
    command<ib_uverbs_query_device, ib_uverbs_query_device_resp>("query_device", IB_USER_VERBS_CMD_QUERY_DEVICE, {});
    command<ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp>(
        "query_device_ex", IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, {});
    ib_uverbs_query_port port{};
    port.port_num = 1;
    command<ib_uverbs_query_port, ib_uverbs_query_port_resp>("query_port", IB_USER_VERBS_CMD_QUERY_PORT, port);
    command<ib_uverbs_create_comp_channel, ib_uverbs_create_comp_channel_resp>(
        "create_comp_channel", IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, {});
    ib_uverbs_create_ah ah{};
    ah.pd_handle = world_.pd;
    ah.attr.port_num = 1;
    ah.attr.dlid = 9;
    command<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>("create_ah", IB_USER_VERBS_CMD_CREATE_AH, ah, 0, 8);
    command<ib_uverbs_destroy_ah, NoResponse>("destroy_ah", IB_USER_VERBS_CMD_DESTROY_AH, {world_.ah});
    ib_uverbs_attach_mcast group{};
    group.qp_handle = world_.qp;
    group.mlid = 0xc001;
    command<ib_uverbs_attach_mcast, NoResponse>("attach_mcast", IB_USER_VERBS_CMD_ATTACH_MCAST, group);
    command<ib_uverbs_attach_mcast, NoResponse>("detach_mcast", IB_USER_VERBS_CMD_DETACH_MCAST, group);
  }

  void memory_commands() {
    command<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp>("alloc_pd", IB_USER_VERBS_CMD_ALLOC_PD, {});
    command<ib_uverbs_dealloc_pd, NoResponse>("dealloc_pd", IB_USER_VERBS_CMD_DEALLOC_PD, {world_.pd});
    ib_uverbs_reg_mr region{};
    region.start = region.hca_va = 0x7000'1000;
    region.length = 12345;
    region.pd_handle = world_.pd;
    region.access_flags = 7;
    command<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>("reg_mr", IB_USER_VERBS_CMD_REG_MR, region);
    ib_uverbs_rereg_mr change{};
    change.mr_handle = world_.mr;
    change.flags = 7;
    change.start = change.hca_va = 0x7100'0000;
    change.length = 4096;
    change.pd_handle = world_.pd;
    change.access_flags = 1;
    command<ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp>("rereg_mr", IB_USER_VERBS_CMD_REREG_MR, change);
    command<ib_uverbs_dereg_mr, NoResponse>("dereg_mr", IB_USER_VERBS_CMD_DEREG_MR, {world_.mr});
    ib_uverbs_alloc_mw window{};
    window.pd_handle = world_.pd;
    window.mw_type = 1;
    command<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>("alloc_mw", IB_USER_VERBS_CMD_ALLOC_MW, window);
    command<ib_uverbs_dealloc_mw, NoResponse>("dealloc_mw", IB_USER_VERBS_CMD_DEALLOC_MW, {world_.mw});
  }

  void queue_commands() {
    ib_uverbs_create_cq cq{};
    cq.cqe = 10;
    cq.comp_channel = -1;
    command<ib_uverbs_create_cq, ib_uverbs_create_cq_resp>("create_cq", IB_USER_VERBS_CMD_CREATE_CQ, cq, 0, 16);
    ib_uverbs_ex_create_cq extended{};
    extended.cqe = 10;
    extended.comp_channel = -1;
    command<ib_uverbs_ex_create_cq, ib_uverbs_ex_create_cq_resp>(
        "create_cq_ex", IB_USER_VERBS_EX_CMD_CREATE_CQ | IB_USER_VERBS_CMD_FLAG_EXTENDED, extended, 0, 16);
    ib_uverbs_resize_cq resize{};
    resize.cq_handle = world_.cq;
    resize.cqe = 100;
    command<ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp>("resize_cq", IB_USER_VERBS_CMD_RESIZE_CQ, resize, 0, 16);
    command<ib_uverbs_req_notify_cq, NoResponse>("req_notify_cq", IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, {world_.cq, 1});
    command<ib_uverbs_poll_cq, std::array<u8, 104>>("poll_cq", IB_USER_VERBS_CMD_POLL_CQ, {0, world_.cq, 2});
    command<ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp>("destroy_cq", IB_USER_VERBS_CMD_DESTROY_CQ,
                                                             {0, world_.cq, 0});
    ib_uverbs_create_srq srq{};
    srq.pd_handle = world_.pd;
    srq.max_wr = 10;
    srq.max_sge = 2;
    command<ib_uverbs_create_srq, ib_uverbs_create_srq_resp>("create_srq", IB_USER_VERBS_CMD_CREATE_SRQ, srq, 0, 24);
    ib_uverbs_create_xsrq xsrq{};
    xsrq.pd_handle = world_.pd;
    xsrq.max_wr = 10;
    command<ib_uverbs_create_xsrq, ib_uverbs_create_srq_resp>("create_xsrq", IB_USER_VERBS_CMD_CREATE_XSRQ, xsrq, 0,
                                                              24);
    ib_uverbs_modify_srq modify{};
    modify.srq_handle = world_.srq;
    modify.attr_mask = 3;
    modify.max_wr = 40;
    command<ib_uverbs_modify_srq, NoResponse>("modify_srq", IB_USER_VERBS_CMD_MODIFY_SRQ, modify, 8, 0,
                                              Window::base + 4096);
    ib_uverbs_query_srq query{};
    query.srq_handle = world_.srq;
    command<ib_uverbs_query_srq, ib_uverbs_query_srq_resp>("query_srq", IB_USER_VERBS_CMD_QUERY_SRQ, query);
    command<ib_uverbs_destroy_srq, ib_uverbs_destroy_srq_resp>("destroy_srq", IB_USER_VERBS_CMD_DESTROY_SRQ,
                                                               {0, world_.srq, 0});
  }

  void qp_commands() {
    command<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>("create_qp", IB_USER_VERBS_CMD_CREATE_QP,
                                                           world_.qp_request(), 0, 32);
    ib_uverbs_ex_create_qp extended{};
    extended.pd_handle = world_.pd;
    extended.send_cq_handle = extended.recv_cq_handle = world_.cq;
    extended.qp_type = IB_UVERBS_QPT_UD;
    extended.max_send_wr = extended.max_recv_wr = 4;
    command<ib_uverbs_ex_create_qp, ib_uverbs_ex_create_qp_resp>(
        "create_qp_ex", IB_USER_VERBS_EX_CMD_CREATE_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED, extended, 0, 32);
    ib_uverbs_ex_modify_qp modify{};
    modify.base.qp_handle = world_.qp;
    modify.base.attr_mask = 1 | 1U << 5 | 1U << 7;
    modify.base.qp_state = 1;
    modify.base.port_num = modify.base.dest.port_num = 1;
    command<ib_uverbs_modify_qp, NoResponse>("modify_qp", IB_USER_VERBS_CMD_MODIFY_QP, modify.base);
    command<ib_uverbs_ex_modify_qp, ib_uverbs_ex_modify_qp_resp>(
        "modify_qp_ex", IB_USER_VERBS_EX_CMD_MODIFY_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED, modify);
    ib_uverbs_query_qp query{};
    query.qp_handle = world_.qp;
    command<ib_uverbs_query_qp, ib_uverbs_query_qp_resp>("query_qp", IB_USER_VERBS_CMD_QUERY_QP, query);
    ib_uverbs_post_send doorbell{};
    doorbell.qp_handle = world_.qp;
    doorbell.wqe_size = 128;
    command<ib_uverbs_post_send, ib_uverbs_post_send_resp>("post_send", IB_USER_VERBS_CMD_POST_SEND, doorbell);
    command<ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp>("destroy_qp", IB_USER_VERBS_CMD_DESTROY_QP,
                                                             {0, world_.qp, 0});
  }

  // Several calls on one file, so that mutations start from a file with a history.
  void sequences() {
    auto join = [](const Corpus& from, std::initializer_list<const char*> names) {
      std::vector<u8> all;
      for (const char* name : names) all.insert(all.end(), from.at(name).begin(), from.at(name).end());
      return all;
    };
    writes["sequence_memory"] = join(writes, {"reg_mr", "rereg_mr", "dereg_mr", "dereg_mr", "reg_mr"});
    writes["sequence_queues"] =
        join(writes, {"create_cq", "resize_cq", "resize_cq", "poll_cq", "destroy_cq", "poll_cq"});
    writes["sequence_qp"] =
        join(writes, {"create_qp", "modify_qp", "post_send", "query_qp", "destroy_qp", "post_send"});
    ioctls["sequence_life"] = join(ioctls, {"qp_create", "srq_create", "cq_create", "qp_destroy", "srq_destroy",
                                            "cq_destroy", "mr_destroy", "mw_destroy", "ah_destroy", "pd_destroy"});
  }

  World world_;
};

}  // namespace softib::kernel::testing
