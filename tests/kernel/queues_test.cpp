// Completion queues, queue pairs, shared receive queues, address handles: what reaches softibd and the engine, what
// the provider is told, and that nothing stays behind when a call fails.
#include <gtest/gtest.h>

#include "hca/limits.h"
#include "hca/rules/bits.h"
#include "kernel/uverbs.h"
#include "world.h"

namespace softib::kernel::testing {
namespace {

using hca::QpAttr;
using ipc::QpState;

constexpr u32 bits(QpAttr attr) { return static_cast<u32>(attr); }

class Queues : public ::testing::Test {
 protected:
  void SetUp() override { world.make_objects(); }
  FakeEngine& engine() { return world.daemon.fake_engine; }
  World world;
};

IoctlCall create_cq_call(World& world, u32 entries, u32 vector = 0) {
  IoctlCall call(world.window, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
  call.handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0).in(UVERBS_ATTR_CREATE_CQ_CQE, entries);
  call.in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, u64{0xabcd}).in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, vector);
  call.out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4);
  return call;
}

TEST_F(Queues, CreateCqByIoctl) {
  IoctlCall call = create_cq_call(world, 10);
  call.driver_out(sizeof(rxe_create_cq_resp));
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_EQ(call.answer<u32>(UVERBS_ATTR_CREATE_CQ_RESP_CQE), 15U);
  auto handle = static_cast<u32>(call.attribute(UVERBS_ATTR_CREATE_CQ_HANDLE).data);
  EXPECT_NE(world.file->find_cq(handle), nullptr);
  EXPECT_EQ(world.daemon.last_cq.user_handle, 0xabcdU);
  EXPECT_TRUE(call.attribute(UVERBS_ATTR_UHW_OUT).flags & UVERBS_ATTR_F_VALID_OUTPUT);
  auto info = call.answer<rxe_create_cq_resp>(UVERBS_ATTR_UHW_OUT);
  EXPECT_EQ(info.mi.offset, world.file->find_cq(handle)->ring);
  EXPECT_EQ(info.mi.size % ipc::page_size, 0U);
}

TEST_F(Queues, CreateCqRefusals) {
  EXPECT_EQ(create_cq_call(world, 10).run(*world.file), -EINVAL);  // the provider left no room for the ring
  IoctlCall vector = create_cq_call(world, 10, hca::limits::max_comp_vectors);
  EXPECT_EQ(vector.driver_out(16).run(*world.file), -EINVAL);
  IoctlCall timestamps = create_cq_call(world, 10);
  timestamps.driver_out(16).in(UVERBS_ATTR_CREATE_CQ_FLAGS, u32{1});
  EXPECT_EQ(timestamps.run(*world.file), -EOPNOTSUPP);
  IoctlCall flags = create_cq_call(world, 10);
  flags.driver_out(16).in(UVERBS_ATTR_CREATE_CQ_FLAGS, u32{8});
  EXPECT_EQ(flags.run(*world.file), -EINVAL);
  for (i64 fd : {i64{-1}, i64{55}}) {
    IoctlCall channel = create_cq_call(world, 10);
    channel.driver_out(16).handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, static_cast<u64>(fd));
    EXPECT_EQ(channel.run(*world.file), -EBADF);
  }
}

TEST_F(Queues, CqOnAChannel) {
  world.fds.channels[55] = {31, 3};
  IoctlCall call = create_cq_call(world, 10);
  call.driver_out(16).handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, 55);
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_EQ(world.daemon.last_cq.channel, 31U);
}

TEST_F(Queues, CqIsUndoneWhenTheAnswerFails) {
  for (u16 broken : {u16{UVERBS_ATTR_UHW_OUT}, u16{UVERBS_ATTR_CREATE_CQ_RESP_CQE}}) {
    size_t before = world.daemon.live_rings.size();
    IoctlCall call = create_cq_call(world, 10);
    call.driver_out(16);
    for (auto& attribute : call.attributes)
      if (attribute.attr_id == broken) attribute.data = 16;
    EXPECT_EQ(call.run(*world.file), -EFAULT);
    EXPECT_EQ(world.daemon.live_rings.size(), before);
  }
}

TEST_F(Queues, ExtendedCreateCq) {
  ib_uverbs_ex_create_cq request{};
  request.cqe = 10;
  request.comp_channel = -1;
  u32 number = IB_USER_VERBS_EX_CMD_CREATE_CQ | IB_USER_VERBS_CMD_FLAG_EXTENDED;
  auto call = world.command<ib_uverbs_ex_create_cq, ib_uverbs_ex_create_cq_resp>(number, request, 0, 16);
  ASSERT_GT(call.write(*world.file), 0);
  EXPECT_EQ(call.response().response_length, sizeof(ib_uverbs_ex_create_cq_resp));
  EXPECT_NE(call.driver_response<rxe_create_cq_resp>().mi.offset, 0U);
  request.comp_mask = 1;
  EXPECT_EQ(
      (world.command<ib_uverbs_ex_create_cq, ib_uverbs_ex_create_cq_resp>(number, request, 0, 16).write(*world.file)),
      -EINVAL);
}

CommandCall<ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp> resize_call(World& world, u32 entries) {
  ib_uverbs_resize_cq request{};
  request.cq_handle = world.cq;
  request.cqe = entries;
  return world.command<ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp>(IB_USER_VERBS_CMD_RESIZE_CQ, request, 0, 16);
}

TEST_F(Queues, ResizeCq) {
  u64 old_ring = world.file->find_cq(world.cq)->ring;
  auto call = resize_call(world, 100);
  ASSERT_GT(call.write(*world.file), 0);
  EXPECT_EQ(call.response().cqe, 127U);
  EXPECT_EQ(engine().notes.back(), "move cq 127");
  EXPECT_EQ(world.daemon.live_rings.count(old_ring), 0U);
  EXPECT_EQ(world.daemon.live_rings.count(call.driver_response<rxe_resize_cq_resp>().mi.offset), 1U);
}

TEST_F(Queues, ResizeThatDoesNotFitKeepsTheOldRing) {
  u64 old_ring = world.file->find_cq(world.cq)->ring;
  size_t rings = world.daemon.live_rings.size();
  engine().move_error = EINVAL;
  EXPECT_EQ(resize_call(world, 100).write(*world.file), -EINVAL);
  EXPECT_EQ(world.daemon.live_rings.count(old_ring), 1U);
  EXPECT_EQ(world.daemon.live_rings.size(), rings);
}

TEST_F(Queues, NotifyAndDestroyCq) {
  ib_uverbs_req_notify_cq request{world.cq, 0};
  EXPECT_EQ(world.command<ib_uverbs_req_notify_cq>(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, request).invoke(*world.file), 0);
  EXPECT_EQ(engine().notes.back(), "arm 1 next");
  request.solicited_only = 1;
  EXPECT_EQ(world.command<ib_uverbs_req_notify_cq>(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, request).write(*world.file), 16);
  EXPECT_EQ(engine().notes.back(), "arm 1 solicited");
  request.cq_handle = 99;
  EXPECT_EQ(world.command<ib_uverbs_req_notify_cq>(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, request).write(*world.file),
            -EINVAL);

  IoctlCall destroy(world.window, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY);
  destroy.handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, world.cq).out(UVERBS_ATTR_DESTROY_CQ_RESP, 8);
  world.daemon.failures[ipc::Op::destroy_cq] = EBUSY;
  EXPECT_EQ(destroy.run(*world.file), -EBUSY);
  world.daemon.failures.clear();
  ASSERT_EQ(destroy.run(*world.file), 0);
  auto answer = destroy.answer<ib_uverbs_destroy_cq_resp>(UVERBS_ATTR_DESTROY_CQ_RESP);
  EXPECT_EQ(answer.comp_events_reported, 11U);
  EXPECT_EQ(answer.async_events_reported, 12U);
  EXPECT_EQ(destroy.run(*world.file), -ENOENT);
}

TEST_F(Queues, PollByCommand) {
  auto& cq = *world.file->find_cq(world.cq);
  auto* ring = reinterpret_cast<rxe_queue_buf*>(world.daemon.segment().arena + cq.ring);
  for (u32 i = 0; i < 3; ++i) {
    ib_uverbs_wc entry{};
    entry.wr_id = 100 + i;
    std::memcpy(ring->data + i * 64, &entry, sizeof entry);
  }
  ring->producer_index = 3;
  auto poll = [&](u32 wanted) {
    struct Answer {
      u32 count, reserved;
      ib_uverbs_wc entries[2];
    };
    ib_uverbs_poll_cq request{0, world.cq, wanted};
    auto call = world.command<ib_uverbs_poll_cq, Answer>(IB_USER_VERBS_CMD_POLL_CQ, request);
    EXPECT_EQ(call.invoke(*world.file), 0);
    return call.response();
  };
  auto first = poll(10);  // room for two
  EXPECT_EQ(first.count, 2U);
  EXPECT_EQ(first.entries[1].wr_id, 101U);
  EXPECT_EQ(poll(1).count, 1U);
  EXPECT_EQ(poll(1).count, 0U);
  ring->consumer_index = 0xffff'fff0;  // a hostile program's index stays inside the ring
  EXPECT_LE(poll(2).count, 2U);
}

// -- queue pairs

IoctlCall create_qp_call(World& world, u64 type) {
  IoctlCall call(world.window, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
  ib_uverbs_qp_cap caps{10, 12, 2, 3, 64};
  call.handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0).handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, world.pd);
  call.handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, world.cq).handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, world.cq);
  call.in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, u64{77}).in(UVERBS_ATTR_CREATE_QP_CAP, caps);
  call.constant(UVERBS_ATTR_CREATE_QP_TYPE, type);
  call.out(UVERBS_ATTR_CREATE_QP_RESP_CAP, 20).out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4);
  call.driver_out(sizeof(rxe_create_qp_resp));
  return call;
}

TEST_F(Queues, CreateQpByIoctl) {
  IoctlCall call = create_qp_call(world, IB_UVERBS_QPT_UC);
  call.in(UVERBS_ATTR_CREATE_QP_FLAGS, u32{IB_UVERBS_QP_CREATE_SQ_SIG_ALL});
  ASSERT_EQ(call.run(*world.file), 0);
  u32 qpn = call.answer<u32>(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM);
  EXPECT_EQ(call.attribute(UVERBS_ATTR_CREATE_QP_HANDLE).data, qpn);
  EXPECT_EQ(world.daemon.last_qp.type, ipc::QpType::uc);
  EXPECT_EQ(world.daemon.last_qp.sq_sig_all, 1);
  EXPECT_EQ(world.daemon.last_qp.caps.max_recv_wr, 12U);
  EXPECT_EQ(call.answer<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_RESP_CAP).max_inline_data, 64U);
  auto info = call.answer<rxe_create_qp_resp>(UVERBS_ATTR_UHW_OUT);
  EXPECT_EQ(info.sq_mi.offset, world.file->find_qp(qpn)->sq_ring);
  EXPECT_EQ(info.rq_mi.offset, world.file->find_qp(qpn)->rq_ring);
}

TEST_F(Queues, QpOnAnSrqHasNoReceiveRing) {
  IoctlCall call = create_qp_call(world, IB_UVERBS_QPT_RC);
  call.handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, world.srq);
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_EQ(world.daemon.last_qp.srq, world.srq);
  EXPECT_EQ(call.answer<rxe_create_qp_resp>(UVERBS_ATTR_UHW_OUT).rq_mi.size, 0U);
}

TEST_F(Queues, QpTypes) {
  for (auto [type, expected] : {std::pair<u64, int>{IB_UVERBS_QPT_XRC_INI, EOPNOTSUPP},
                                {IB_UVERBS_QPT_XRC_TGT, EINVAL},
                                {IB_UVERBS_QPT_DRIVER, EOPNOTSUPP},
                                {0, EINVAL},
                                {77, EINVAL}}) {
    EXPECT_EQ(create_qp_call(world, type).run(*world.file), -expected) << type;
    ib_uverbs_create_qp request = world.qp_request();
    request.qp_type = static_cast<u8>(type);
    auto call =
        world.command<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>(IB_USER_VERBS_CMD_CREATE_QP, request, 0, 32);
    EXPECT_EQ(call.write(*world.file), -expected) << type;
  }
  int raw = create_qp_call(world, IB_UVERBS_QPT_RAW_PACKET).run(*world.file);
  EXPECT_TRUE(raw == -EPERM || raw == -EOPNOTSUPP);
}

TEST_F(Queues, CreateQpRefusals) {
  auto run = [&](auto change, u16 driver_in = 0, u16 driver_out = 32) {
    ib_uverbs_create_qp request = world.qp_request();
    change(request);
    return world
        .command<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>(IB_USER_VERBS_CMD_CREATE_QP, request, driver_in,
                                                                driver_out)
        .write(*world.file);
  };
  auto nothing = [](auto&) {};
  EXPECT_GT(run(nothing), 0);
  EXPECT_EQ(run(nothing, 0, 16), -EINVAL);
  EXPECT_EQ(run(nothing, 8), -EINVAL);
  EXPECT_EQ(run([](auto& request) { request.send_cq_handle = 99; }), -EINVAL);
  EXPECT_EQ(run([](auto& request) { request.recv_cq_handle = 99; }), -EINVAL);
  EXPECT_EQ(run([](auto& request) { request.is_srq = 1, request.srq_handle = 99; }), -EINVAL);
  EXPECT_EQ(run([](auto& request) { request.is_srq = 1, request.srq_handle = 0; }), -EINVAL);
  EXPECT_EQ(run([](auto& request) { request.pd_handle = 99; }), -EINVAL);
}

TEST_F(Queues, CreateQpNeedsItsHandles) {
  IoctlCall call = create_qp_call(world, IB_UVERBS_QPT_RC);
  std::erase_if(call.attributes, [](auto& one) { return one.attr_id == UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE; });
  EXPECT_EQ(call.run(*world.file), -ENOENT);
}

TEST_F(Queues, QpIsUndoneWhenTheAnswerFails) {
  size_t rings = world.daemon.live_rings.size();
  for (u16 broken : {u16{UVERBS_ATTR_UHW_OUT}, u16{UVERBS_ATTR_CREATE_QP_RESP_QP_NUM}}) {
    IoctlCall call = create_qp_call(world, IB_UVERBS_QPT_RC);
    for (auto& attribute : call.attributes)
      if (attribute.attr_id == broken) attribute.data = 16;
    EXPECT_EQ(call.run(*world.file), -EFAULT);
    EXPECT_EQ(world.daemon.live_rings.size(), rings);
  }
}

TEST_F(Queues, ExtendedCreateQp) {
  ib_uverbs_ex_create_qp request{};
  request.pd_handle = world.pd;
  request.send_cq_handle = request.recv_cq_handle = world.cq;
  request.qp_type = IB_UVERBS_QPT_UD;
  request.max_send_wr = request.max_recv_wr = 4;
  u32 number = IB_USER_VERBS_EX_CMD_CREATE_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED;
  auto run = [&] {
    return world.command<ib_uverbs_ex_create_qp, ib_uverbs_ex_create_qp_resp>(number, request, 0, 32)
        .write(*world.file);
  };
  EXPECT_GT(run(), 0);
  request.create_flags = 1U << 1;
  EXPECT_EQ(run(), -EOPNOTSUPP);
  request.create_flags = 1U << 20;
  EXPECT_EQ(run(), -EINVAL);
  request.create_flags = 0;
  request.comp_mask = 1;
  EXPECT_EQ(run(), -EINVAL);
}

ib_uverbs_modify_qp modify_request(World& world, QpAttr mask) {
  ib_uverbs_modify_qp request{};
  request.qp_handle = world.qp;
  request.attr_mask = bits(mask);
  request.port_num = 1;
  request.dest.port_num = 1;
  return request;
}

ssize_t modify(World& world, const ib_uverbs_modify_qp& request) {
  return world.command<ib_uverbs_modify_qp>(IB_USER_VERBS_CMD_MODIFY_QP, request).write(*world.file);
}

TEST_F(Queues, ModifyTellsTheEngineOfBothStates) {
  auto request = modify_request(world, QpAttr::state | QpAttr::port);
  request.qp_state = 1;
  ASSERT_EQ(modify(world, request), 120);
  EXPECT_EQ(engine().notes.back(), "modified 17 0>1");
  size_t notes = engine().notes.size();
  EXPECT_EQ(modify(world, modify_request(world, QpAttr::qkey)), 120);
  EXPECT_EQ(engine().notes.size(), notes);  // no change of state
}

TEST_F(Queues, ModifyPorts) {
  auto init = modify_request(world, QpAttr::state | QpAttr::port);
  init.qp_state = 1;
  init.port_num = 2;
  EXPECT_EQ(modify(world, init), -EINVAL);
  init.port_num = 1;
  EXPECT_EQ(modify(world, init), 120);
  auto rtr = modify_request(world, QpAttr::state | QpAttr::av);
  rtr.qp_state = 2;
  rtr.dest.port_num = 2;
  EXPECT_EQ(modify(world, rtr), -EINVAL);
  rtr.dest.port_num = 1;
  rtr.dest.dlid = 9;
  EXPECT_EQ(modify(world, rtr), 120);
  EXPECT_EQ(world.daemon.last_attributes.av.dlid, 9);
  EXPECT_EQ(modify(world, modify_request(world, QpAttr::av)), 120);  // SQD: the port follows the address vector
  EXPECT_TRUE(world.daemon.last_attributes.mask & bits(QpAttr::port));
}

TEST_F(Queues, ModifyRefusals) {
  auto unknown = modify_request(world, static_cast<QpAttr>(1U << 22));
  EXPECT_EQ(modify(world, unknown), -EOPNOTSUPP);
  auto state = modify_request(world, QpAttr::state);
  state.qp_state = 7;
  EXPECT_EQ(modify(world, state), -EINVAL);
  auto current = modify_request(world, QpAttr::cur_state);
  current.cur_qp_state = 7;
  EXPECT_EQ(modify(world, current), -EINVAL);
  auto path = modify_request(world, QpAttr::alt_path);
  path.alt_port_num = 1;
  path.alt_dest.port_num = 2;
  EXPECT_EQ(modify(world, path), -EINVAL);
  auto missing = modify_request(world, QpAttr::qkey);
  missing.qp_handle = 4242;
  EXPECT_EQ(modify(world, missing), -EINVAL);
  ib_uverbs_ex_modify_qp rate{};
  rate.base = modify_request(world, QpAttr::rate_limit);
  EXPECT_EQ((world
                 .command<ib_uverbs_ex_modify_qp, ib_uverbs_ex_modify_qp_resp>(
                     IB_USER_VERBS_EX_CMD_MODIFY_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED, rate)
                 .write(*world.file)),
            -EOPNOTSUPP);
}

TEST_F(Queues, ModifiedValuesComeBack) {
  auto request = modify_request(world, QpAttr::state | QpAttr::av | QpAttr::timeout | QpAttr::retry_count);
  request.qp_state = 3;
  request.timeout = 14;
  request.retry_cnt = 7;
  request.dest.is_global = 1;
  request.dest.sgid_index = 2;
  request.dest.dgid[15] = 0xee;
  ASSERT_EQ(modify(world, request), 120);
  ib_uverbs_query_qp query{};
  query.qp_handle = world.qp;
  auto call = world.command<ib_uverbs_query_qp, ib_uverbs_query_qp_resp>(IB_USER_VERBS_CMD_QUERY_QP, query);
  ASSERT_EQ(call.write(*world.file), 24);
  EXPECT_EQ(call.response().timeout, 14);
  EXPECT_EQ(call.response().retry_cnt, 7);
  EXPECT_EQ(call.response().dest.sgid_index, 2);
  EXPECT_EQ(call.response().dest.dgid[15], 0xee);
  EXPECT_EQ(call.response().qp_state, 3);
  EXPECT_EQ(call.response().sq_sig_all, 1);
}

TEST_F(Queues, DestroyQp) {
  IoctlCall destroy(world.window, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY);
  destroy.handle(UVERBS_ATTR_DESTROY_QP_HANDLE, world.qp).out(UVERBS_ATTR_DESTROY_QP_RESP, 4);
  ASSERT_EQ(destroy.run(*world.file), 0);
  EXPECT_EQ(destroy.answer<u32>(UVERBS_ATTR_DESTROY_QP_RESP), 14U);
  EXPECT_EQ(engine().notes.back(), "destroyed 17");
  ib_uverbs_destroy_qp again{};
  again.qp_handle = world.qp;
  EXPECT_EQ((world.command<ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp>(IB_USER_VERBS_CMD_DESTROY_QP, again)
                 .write(*world.file)),
            -ENOENT);
}

TEST_F(Queues, PostSendByIoctlIsADoorbell) {
  ib_uverbs_post_send request{};
  request.qp_handle = world.qp;
  auto run = [&] {
    return world.command<ib_uverbs_post_send, ib_uverbs_post_send_resp>(IB_USER_VERBS_CMD_POST_SEND, request)
        .invoke(*world.file);
  };
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(engine().doorbells, 1U);
  engine().doorbell_error = EINVAL;
  EXPECT_EQ(run(), -EINVAL);
  request.wr_count = 1;
  request.wqe_size = 1000;
  EXPECT_EQ(run(), -ENOSPC);
  request.wr_count = request.wqe_size = 0xffff'ffff;
  EXPECT_EQ(run(), -ENOSPC);
  request.wr_count = 0;
  request.sge_count = 0xffff'ffff;
  EXPECT_EQ(run(), -ENOSPC);
}

// -- the doorbell as the shim rings it

struct Doorbell {
  ib_uverbs_cmd_hdr header;
  u64 response;
  u32 qp_handle, wr_count, sge_count, wqe_size;
};

TEST_F(Queues, HotPath) {
  UverbsFile file(world.daemon, world.fds, own_memory(), FakeDaemon::context_id, FakeDaemon::device_index,
                  FileOrigin::inherited);
  Doorbell bell{{IB_USER_VERBS_CMD_POST_SEND, sizeof bell / 4, 1}, 0, world.qp, 0, 0, 128};
  static_assert(sizeof bell == 32);
  EXPECT_EQ(file.write(&bell, sizeof bell), 32);
  EXPECT_EQ(engine().doorbells, 1U);
  engine().doorbell_error = EINVAL;
  EXPECT_EQ(file.write(&bell, sizeof bell), -EINVAL);
  engine().doorbell_error = 0;
  bell.header.in_words = 7;
  EXPECT_EQ(file.write(&bell, sizeof bell), -EINVAL);
  bell.header.in_words = 8;
  bell.header.out_words = 0;
  EXPECT_EQ(file.write(&bell, sizeof bell), -ENOSPC);
  bell.header.out_words = 1;
  bell.wr_count = 1;
  EXPECT_EQ(file.write(&bell, sizeof bell), -ENOSPC);
  bell.wr_count = 0;
  bell.qp_handle = 4242;
  EXPECT_EQ(file.write(&bell, sizeof bell), -EINVAL);
  EXPECT_EQ(file.write(nullptr, sizeof bell), -EFAULT);
  EXPECT_EQ(file.write(reinterpret_cast<void*>(64), sizeof bell), -EFAULT);
}

TEST_F(Queues, OtherIoctlsAreNotOurs) {
  UverbsFile file(world.daemon, world.fds, own_memory(), FakeDaemon::context_id, FakeDaemon::device_index,
                  FileOrigin::inherited);
  EXPECT_EQ(file.ioctl(0x5401, nullptr), -ENOTTY);
  EXPECT_EQ(file.ioctl(RDMA_VERBS_IOCTL, nullptr), -EFAULT);
  EXPECT_EQ(file.ioctl(0xffff'ffff'0000'0000UL | RDMA_VERBS_IOCTL, nullptr), -EFAULT);
}

TEST_F(Queues, RingsAreMappedOnce) {
  UverbsFile file(world.daemon, world.fds, world.window, FakeDaemon::context_id, FakeDaemon::device_index,
                  FileOrigin::opened);
  EXPECT_EQ(file.mmap_offset(4096, 4096), tl::unexpected(Errno{ENODEV}));
  auto context = world.command<ib_uverbs_get_context, ib_uverbs_get_context_resp>(IB_USER_VERBS_CMD_GET_CONTEXT, {});
  auto bytes = context.build_write();
  // UverbsFile takes real pointers: what lies in the window is given by its address there.
  u64 at = world.window.put(bytes.data(), bytes.size());
  ASSERT_EQ(file.write(reinterpret_cast<void*>(at), bytes.size()), 16);
  IoctlCall call = create_cq_call(world, 10);
  call.driver_out(16);
  ASSERT_EQ(file.ioctl(RDMA_VERBS_IOCTL, reinterpret_cast<void*>(call.store())), 0);
  auto info = call.answer<rxe_create_cq_resp>(UVERBS_ATTR_UHW_OUT).mi;
  EXPECT_EQ(file.mmap_offset(info.offset, info.size + 1), tl::unexpected(Errno{EINVAL}));
  EXPECT_EQ(file.mmap_offset(info.offset + 4096, 1), tl::unexpected(Errno{EINVAL}));
  EXPECT_EQ(file.mmap_offset(info.offset, info.size), offsetof(ipc::Segment, arena) + info.offset);
  EXPECT_EQ(file.mmap_offset(info.offset, info.size), tl::unexpected(Errno{EINVAL}));
}

// -- shared receive queues

TEST_F(Queues, CreateSrqByIoctl) {
  auto make = [&](u64 type) {
    IoctlCall call(world.window, UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE);
    call.handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, 0).handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, world.pd);
    call.constant(UVERBS_ATTR_CREATE_SRQ_TYPE, type).in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, u64{5});
    call.in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, u32{20}).in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, u32{2});
    call.in(UVERBS_ATTR_CREATE_SRQ_LIMIT, u32{0});
    call.out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4).out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4);
    call.driver_out(sizeof(rxe_create_srq_resp));
    return call;
  };
  IoctlCall call = make(IB_UVERBS_SRQT_BASIC);
  ASSERT_EQ(call.run(*world.file), 0);
  auto info = call.answer<rxe_create_srq_resp>(UVERBS_ATTR_UHW_OUT);
  EXPECT_EQ(info.srq_num, call.attribute(UVERBS_ATTR_CREATE_SRQ_HANDLE).data);
  EXPECT_EQ(call.answer<u32>(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR), 20U);
  EXPECT_EQ(make(IB_UVERBS_SRQT_XRC).run(*world.file), -EINVAL);
  IoctlCall matching = make(IB_UVERBS_SRQT_TM);
  EXPECT_EQ(matching.handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, world.cq).run(*world.file), -EOPNOTSUPP);
  EXPECT_EQ(make(9).run(*world.file), -EINVAL);
}

ssize_t modify_srq(World& world, u32 mask, u64 info_address, u32 max_wr = 40) {
  ib_uverbs_modify_srq request{};
  request.srq_handle = world.srq;
  request.attr_mask = mask;
  request.max_wr = max_wr;
  request.srq_limit = 3;
  auto call = world.command<ib_uverbs_modify_srq>(IB_USER_VERBS_CMD_MODIFY_SRQ, request, 8);
  call.driver_data = info_address;
  return call.write(*world.file);
}

TEST_F(Queues, ModifySrq) {
  u64 old_ring = world.file->find_srq(world.srq)->ring;
  u64 info_address = world.window.room(sizeof(mminfo));
  ASSERT_EQ(modify_srq(world, 1, info_address), 32);
  auto info = world.window.get<mminfo>(info_address);
  EXPECT_EQ(engine().notes.back(), "move srq 63");
  EXPECT_EQ(world.daemon.live_rings.count(old_ring), 0U);
  EXPECT_EQ(world.daemon.live_rings.count(info.offset), 1U);
  ASSERT_EQ(modify_srq(world, 2, 0), 32);
  EXPECT_EQ(engine().notes.back(), "limit 1");
}

TEST_F(Queues, ModifySrqFailures) {
  u64 old_ring = world.file->find_srq(world.srq)->ring;
  size_t rings = world.daemon.live_rings.size();
  EXPECT_EQ(modify_srq(world, 1, 16), -EFAULT);  // nowhere to tell of the new ring
  engine().move_error = EINVAL;
  EXPECT_EQ(modify_srq(world, 1, world.window.room(16)), -EINVAL);
  EXPECT_EQ(world.daemon.live_rings.count(old_ring), 1U);
  EXPECT_EQ(world.daemon.live_rings.size(), rings);
  ib_uverbs_modify_srq request{};
  request.srq_handle = world.srq;
  EXPECT_EQ(world.command<ib_uverbs_modify_srq>(IB_USER_VERBS_CMD_MODIFY_SRQ, request).write(*world.file), -EINVAL);
}

TEST_F(Queues, QueryAndDestroySrq) {
  ib_uverbs_query_srq query{};
  query.srq_handle = world.srq;
  auto call = world.command<ib_uverbs_query_srq, ib_uverbs_query_srq_resp>(IB_USER_VERBS_CMD_QUERY_SRQ, query);
  ASSERT_EQ(call.invoke(*world.file), 0);
  EXPECT_EQ(call.response().max_wr, 100U);
  EXPECT_EQ(call.response().srq_limit, 9U);
  ib_uverbs_destroy_srq end{};
  end.srq_handle = world.srq;
  auto destroy = world.command<ib_uverbs_destroy_srq, ib_uverbs_destroy_srq_resp>(IB_USER_VERBS_CMD_DESTROY_SRQ, end);
  ASSERT_EQ(destroy.write(*world.file), 24);
  EXPECT_EQ(destroy.response().events_reported, 13U);
}

// -- address handles, multicast

TEST_F(Queues, AddressHandles) {
  ib_uverbs_create_ah request{};
  request.pd_handle = world.pd;
  request.attr.port_num = 1;
  request.attr.is_global = 1;
  request.attr.grh.sgid_index = 1;
  request.attr.grh.dgid[0] = 0xff;
  request.attr.sl = 3;
  auto call = world.command<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(IB_USER_VERBS_CMD_CREATE_AH, request, 0, 8);
  ASSERT_GT(call.write(*world.file), 0);
  EXPECT_EQ(call.driver_response<rxe_create_ah_resp>().ah_num, call.response().ah_handle);
  EXPECT_EQ(world.daemon.last_av.dgid.raw[0], 0xff);
  EXPECT_EQ(world.daemon.last_av.sl, 3);
  IoctlCall destroy(world.window, UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY);
  destroy.handle(UVERBS_ATTR_DESTROY_AH_HANDLE, call.response().ah_handle);
  EXPECT_EQ(destroy.run(*world.file), 0);
  EXPECT_EQ(destroy.run(*world.file), -ENOENT);
  auto old = world.command<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(IB_USER_VERBS_CMD_CREATE_AH, request);
  EXPECT_GT(old.write(*world.file), 0);  // a provider that does not ask for the number
  request.attr.port_num = 2;
  auto port = world.command<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(IB_USER_VERBS_CMD_CREATE_AH, request, 0, 8);
  EXPECT_EQ(port.write(*world.file), -EINVAL);
}

TEST_F(Queues, Multicast) {
  ib_uverbs_attach_mcast request{};
  request.qp_handle = world.qp;
  request.mlid = 0xc001;
  EXPECT_EQ(world.command<ib_uverbs_attach_mcast>(IB_USER_VERBS_CMD_ATTACH_MCAST, request).invoke(*world.file), 0);
  EXPECT_EQ(world.command<ib_uverbs_attach_mcast>(IB_USER_VERBS_CMD_DETACH_MCAST, request).invoke(*world.file),
            -EINVAL);
  request.qp_handle = 4242;
  EXPECT_EQ(world.command<ib_uverbs_attach_mcast>(IB_USER_VERBS_CMD_ATTACH_MCAST, request).invoke(*world.file),
            -EINVAL);
}

}  // namespace
}  // namespace softib::kernel::testing
