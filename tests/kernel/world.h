// A command file on a fake daemon, with one object of each kind in it.
#pragma once

#include <memory>

#include "calls.h"
#include "fake_daemon.h"
#include "kernel/tables.h"

namespace softib::kernel::testing {

class World {
 public:
  explicit World(bool ready = true)
      : file(std::make_unique<Interpreter>(daemon, fds, window, FakeDaemon::context_id, FakeDaemon::device_index,
                                           ready)) {}

  template <typename Request, typename Response = NoResponse>
  CommandCall<Request, Response> command(u32 number, const Request& request, u16 driver_in = 0, u16 driver_out = 0) {
    return {window, number, request, driver_in, driver_out};
  }

  void make_objects() {
    pd = make_pd();
    cq = make_cq();
    srq = make_srq();
    qp = make_qp();
    mr = make_mr(0x7000'0000, 8192, 1);
    mw = make_mw();
    ah = make_ah();
  }

  u32 make_pd() {
    auto call = command<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp>(IB_USER_VERBS_CMD_ALLOC_PD, {});
    return call.write(*file) > 0 ? call.response().pd_handle : 0;
  }
  u32 make_cq() {
    ib_uverbs_create_cq request{};
    request.cqe = 10;
    request.comp_channel = -1;
    auto call = command<ib_uverbs_create_cq, ib_uverbs_create_cq_resp>(IB_USER_VERBS_CMD_CREATE_CQ, request, 0, 16);
    return call.write(*file) > 0 ? call.response().cq_handle : 0;
  }
  u32 make_srq() {
    ib_uverbs_create_srq request{};
    request.pd_handle = pd;
    request.max_wr = 10;
    request.max_sge = 1;
    auto call = command<ib_uverbs_create_srq, ib_uverbs_create_srq_resp>(IB_USER_VERBS_CMD_CREATE_SRQ, request, 0, 24);
    return call.write(*file) > 0 ? call.response().srq_handle : 0;
  }
  ib_uverbs_create_qp qp_request() const {
    ib_uverbs_create_qp request{};
    request.pd_handle = pd;
    request.send_cq_handle = request.recv_cq_handle = cq;
    request.max_send_wr = request.max_recv_wr = 10;
    request.max_send_sge = request.max_recv_sge = 1;
    request.qp_type = IB_UVERBS_QPT_RC;
    return request;
  }
  u32 make_qp() {
    auto call = command<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>(IB_USER_VERBS_CMD_CREATE_QP, qp_request(), 0,
                                                                       sizeof(rxe_create_qp_resp));
    return call.write(*file) > 0 ? call.response().qp_handle : 0;
  }
  CommandCall<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp> reg_mr(u64 address, u64 length, u32 access) {
    ib_uverbs_reg_mr request{};
    request.start = request.hca_va = address;
    request.length = length;
    request.pd_handle = pd;
    request.access_flags = access;
    return command<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>(IB_USER_VERBS_CMD_REG_MR, request);
  }
  u32 make_mr(u64 address, u64 length, u32 access) {
    auto call = reg_mr(address, length, access);
    return call.write(*file) > 0 ? call.response().mr_handle : 0;
  }
  u32 make_mw() {
    ib_uverbs_alloc_mw request{};
    request.pd_handle = pd;
    request.mw_type = 2;
    auto call = command<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>(IB_USER_VERBS_CMD_ALLOC_MW, request);
    return call.write(*file) > 0 ? call.response().mw_handle : 0;
  }
  u32 make_ah() {
    ib_uverbs_create_ah request{};
    request.pd_handle = pd;
    request.attr.port_num = 1;
    request.attr.dlid = 9;
    auto call = command<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(IB_USER_VERBS_CMD_CREATE_AH, request, 0, 8);
    return call.write(*file) > 0 ? call.response().ah_handle : 0;
  }

  [[nodiscard]] u32 handle_of(ipc::ObjectKind kind) const {
    switch (kind) {
      case ipc::ObjectKind::pd:
        return pd;
      case ipc::ObjectKind::cq:
        return cq;
      case ipc::ObjectKind::srq:
        return srq;
      case ipc::ObjectKind::qp:
        return qp;
      case ipc::ObjectKind::mr:
        return mr;
      case ipc::ObjectKind::mw:
        return mw;
      case ipc::ObjectKind::ah:
        return ah;
      default:
        return 0;
    }
  }

  Window window;
  FakeDaemon daemon;
  FakeFds fds;
  std::unique_ptr<Interpreter> file;
  u32 pd = 0, cq = 0, srq = 0, qp = 0, mr = 0, mw = 0, ah = 0;
};

// A call of a row that has all its mandatory attributes, in their smallest form.
inline IoctlCall well_formed(World& world, const MethodRow& row) {
  IoctlCall call(world.window, row.object, row.method);
  for (const AttrSpec& spec : row.attributes) {
    if (spec.need == Need::optional) continue;
    if (spec.kind == AttrKind::out) {
      call.out(spec.id, spec.min_size);
    } else if (spec.kind == AttrKind::in) {
      call.data(spec.id, spec.min_size > 8 ? world.window.room(spec.min_size) : 0, spec.min_size);
    } else {
      call.handle(spec.id, world.handle_of(spec.object));
    }
  }
  return call;
}

}  // namespace softib::kernel::testing
