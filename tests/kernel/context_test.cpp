// Opening a context, its descriptors, the device and its ports.
#include <gtest/gtest.h>

#include "hca/limits.h"
#include "kernel/capabilities.h"
#include "world.h"

namespace softib::kernel::testing {
namespace {

IoctlCall get_context_call(World& world) {
  IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
  call.out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4).out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8);
  return call;
}

TEST(Context, ByIoctlOnce) {
  World world(false);
  IoctlCall call = get_context_call(world);
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_EQ(call.answer<u32>(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS), hca::limits::max_comp_vectors);
  EXPECT_EQ(call.answer<u64>(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT), u64{IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS});
  EXPECT_EQ(get_context_call(world).run(*world.file), -EINVAL);
}

TEST(Context, FailedAnswerLeavesNoContext) {
  World world(false);
  IoctlCall bad(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
  bad.data(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 16, 4);
  EXPECT_EQ(bad.run(*world.file), -EFAULT);
  EXPECT_EQ(get_context_call(world).run(*world.file), 0);
}

TEST(Context, ByWriteGivesAnAsyncDescriptor) {
  World world(false);
  auto call = world.command<ib_uverbs_get_context, ib_uverbs_get_context_resp>(IB_USER_VERBS_CMD_GET_CONTEXT, {});
  ASSERT_EQ(call.write(*world.file), 16);
  EXPECT_EQ(call.response().async_fd, 100U);
  EXPECT_EQ(call.response().num_comp_vectors, hca::limits::max_comp_vectors);
  EXPECT_EQ(world.fds.held.count(100), 1U);
  EXPECT_EQ(call.write(*world.file), -EINVAL);
}

TEST(Context, DescriptorIsTakenBackWhenTheAnswerFails) {
  World world(false);
  auto call = world.command<ib_uverbs_get_context, ib_uverbs_get_context_resp>(IB_USER_VERBS_CMD_GET_CONTEXT, {});
  world.window.read_only_from = Window::base;
  EXPECT_EQ(call.write(*world.file), -EFAULT);
  EXPECT_TRUE(world.fds.held.empty());
  EXPECT_FALSE(world.file->ready());
}

TEST(Context, AsyncDescriptorByIoctl) {
  World world;
  IoctlCall call(world.window, UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
  call.handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0);
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_EQ(call.attribute(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).data_s64, 100);
}

TEST(Context, DescriptorTableFull) {
  World world;
  world.fds.error = EMFILE;
  IoctlCall call(world.window, UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
  call.handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0);
  EXPECT_EQ(call.run(*world.file), -EMFILE);
}

TEST(Context, NoDescriptorFromTheDaemonIsAnError) {
  World world;
  world.daemon.hands_out_fds = false;
  auto call = world.command<ib_uverbs_create_comp_channel, ib_uverbs_create_comp_channel_resp>(
      IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, {});
  EXPECT_EQ(call.write(*world.file), -EIO);
}

TEST(Context, CompletionChannel) {
  World world;
  auto call = world.command<ib_uverbs_create_comp_channel, ib_uverbs_create_comp_channel_resp>(
      IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, {});
  ASSERT_EQ(call.invoke(*world.file), 0);
  auto channel = world.fds.channels.at(static_cast<int>(call.response().fd));
  EXPECT_EQ(channel.channel, 31U);
  EXPECT_EQ(channel.generation, 3U);
}

TEST(Context, DeadDaemon) {
  World world;
  world.daemon.failures[ipc::Op::alloc_pd] = EIO;
  auto call = world.command<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp>(IB_USER_VERBS_CMD_ALLOC_PD, {});
  EXPECT_EQ(call.write(*world.file), -EIO);
}

TEST(Context, InfoHandles) {
  World world;
  u32 first = world.make_pd();
  u32 second = world.make_pd();
  IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES);
  call.constant(UVERBS_ATTR_INFO_OBJECT_ID, UVERBS_OBJECT_PD);
  call.out(UVERBS_ATTR_INFO_TOTAL_HANDLES, 4).out(UVERBS_ATTR_INFO_HANDLES_LIST, 32);
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_EQ(call.answer<u32>(UVERBS_ATTR_INFO_TOTAL_HANDLES), 2U);
  auto list = call.answer<std::array<u32, 2>>(UVERBS_ATTR_INFO_HANDLES_LIST);
  EXPECT_EQ(list[0], first);
  EXPECT_EQ(list[1], second);
  for (auto [object, size] : {std::pair<u64, u16>{UVERBS_OBJECT_FLOW, 32}, {UVERBS_OBJECT_PD, 6}, {0x10000, 32}}) {
    IoctlCall bad(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES);
    bad.constant(UVERBS_ATTR_INFO_OBJECT_ID, object).out(UVERBS_ATTR_INFO_HANDLES_LIST, size);
    EXPECT_EQ(bad.run(*world.file), -EINVAL) << object;
  }
}

TEST(Device, OldAndNewQueryAgree) {
  World world;
  auto old = world.command<ib_uverbs_query_device, ib_uverbs_query_device_resp>(IB_USER_VERBS_CMD_QUERY_DEVICE, {});
  ASSERT_EQ(old.write(*world.file), 16);
  auto extended = world.command<ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp>(
      IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, {});
  ASSERT_EQ(extended.invoke(*world.file), 0);
  auto plain = old.response();
  auto full = extended.response();
  EXPECT_EQ(std::memcmp(&plain, &full.base, sizeof plain), 0);
  EXPECT_EQ(full.response_length, sizeof full);
  EXPECT_EQ(plain.node_guid, htobe64(0x5254'00ff'fe00'0001));
  EXPECT_EQ(plain.phys_port_cnt, 1);
  EXPECT_EQ(plain.max_pkeys, 1);
  EXPECT_EQ(plain.max_qp, hca::limits::max_qp);
  EXPECT_EQ(full.device_cap_flags_ex, capabilities::device_flags);
  EXPECT_EQ(full.odp_caps.general_caps, 3U);
  EXPECT_EQ(full.timestamp_mask, 0U);
}

TEST(Device, ShortExtendedResponse) {
  World world;
  auto call = world.command<ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp>(
      IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, {});
  u16 oldest = offsetof(ib_uverbs_ex_query_device_resp, response_length) + 4;
  call.response_size(oldest);
  ASSERT_EQ(call.invoke(*world.file), 0);
  EXPECT_EQ(call.response().response_length, oldest);
  EXPECT_EQ(call.response().odp_caps.general_caps, 0U);  // beyond what was asked for: untouched
}

TEST(Device, ExtendedQueryRefusesUnknownBits) {
  World world;
  for (ib_uverbs_ex_query_device request : {ib_uverbs_ex_query_device{1, 0}, ib_uverbs_ex_query_device{0, 1}}) {
    auto call = world.command<ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp>(
        IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, request);
    EXPECT_EQ(call.invoke(*world.file), -EINVAL);
  }
  auto driver = world.command<ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp>(
      IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, {}, 0, 8);
  EXPECT_EQ(driver.invoke(*world.file), -EINVAL);
}

TEST(Port, OldAndNewQuery) {
  World world;
  ib_uverbs_query_port request{};
  request.port_num = 1;
  auto old = world.command<ib_uverbs_query_port, ib_uverbs_query_port_resp>(IB_USER_VERBS_CMD_QUERY_PORT, request);
  ASSERT_EQ(old.write(*world.file), 24);
  EXPECT_EQ(old.response().lid, 5);
  EXPECT_EQ(old.response().state, 4);
  EXPECT_EQ(old.response().max_msg_sz, 0x8000'0000U);
  EXPECT_EQ(old.response().flags, 0);
  EXPECT_EQ(old.response().active_speed, 128);  // 256 does not fit
  IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
  call.constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1);
  call.out(UVERBS_ATTR_QUERY_PORT_RESP, 64);  // a newer program's longer structure
  ASSERT_EQ(call.run(*world.file), 0);
  auto answer = call.answer<std::array<u32, 16>>(UVERBS_ATTR_QUERY_PORT_RESP);
  EXPECT_EQ(answer[11], 256U);  // active_speed_ex
  EXPECT_EQ(answer[12], 0U);
}

TEST(Port, EthernetNeedsAGlobalRoute) {
  World world;
  world.daemon.segment().ports[1].link_layer = ipc::LinkLayer::ethernet;
  ib_uverbs_query_port request{};
  request.port_num = 1;
  auto call = world.command<ib_uverbs_query_port, ib_uverbs_query_port_resp>(IB_USER_VERBS_CMD_QUERY_PORT, request);
  ASSERT_EQ(call.write(*world.file), 24);
  EXPECT_EQ(call.response().flags, IB_UVERBS_QPF_GRH_REQUIRED);
  EXPECT_EQ(call.response().link_layer, 2);
}

TEST(Port, NoSuchPort) {
  World world;
  for (u64 number : {0, 2, 255, 256, 257}) {
    IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
    call.constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, number).out(UVERBS_ATTR_QUERY_PORT_RESP, 48);
    EXPECT_EQ(call.run(*world.file), -EINVAL) << number;
  }
}

IoctlCall gid_entry(World& world, u64 port, u64 index, u64 flags = 0) {
  IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
  call.constant(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port).constant(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index);
  call.constant(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, flags).out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 32);
  return call;
}

TEST(Gid, Entry) {
  World world;
  IoctlCall call = gid_entry(world, 1, 1);
  ASSERT_EQ(call.run(*world.file), 0);
  auto entry = call.answer<ib_uverbs_gid_entry>(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY);
  EXPECT_EQ(entry.gid_index, 1U);
  EXPECT_EQ(entry.gid_type, 2U);
  EXPECT_EQ(reinterpret_cast<u8*>(entry.gid)[0], 0xfd);
  EXPECT_EQ(gid_entry(world, 1, 2).run(*world.file), -ENODATA);  // in the table, but empty
  EXPECT_EQ(gid_entry(world, 1, 3).run(*world.file), -EINVAL);
  EXPECT_EQ(gid_entry(world, 2, 0).run(*world.file), -EINVAL);
  EXPECT_EQ(gid_entry(world, 1, 0, 1).run(*world.file), -EINVAL);
}

IoctlCall gid_table(World& world, u64 entry_size, u16 room) {
  IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
  call.constant(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, entry_size);
  call.out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, room).out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8);
  return call;
}

TEST(Gid, Table) {
  World world;
  for (u16 entry_size : {16, 32, 48}) {
    IoctlCall call = gid_table(world, entry_size, static_cast<u16>(entry_size * 4));
    ASSERT_EQ(call.run(*world.file), 0) << entry_size;
    EXPECT_EQ(call.answer<u64>(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES), 2U);
    u64 second = call.attribute(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES).data + entry_size;
    EXPECT_EQ(world.window.get<u8>(second), 0xfd);
  }
  EXPECT_EQ(gid_table(world, 32, 32).run(*world.file), -EINVAL);  // two entries, room for one
  EXPECT_EQ(gid_table(world, 0, 64).run(*world.file), -EINVAL);
  EXPECT_EQ(gid_table(world, 32, 0).run(*world.file), -EINVAL);
  EXPECT_EQ(gid_table(world, 32, 40).run(*world.file), -EINVAL);
  EXPECT_EQ(gid_table(world, 1ULL << 40, 64).run(*world.file), -EINVAL);
}

// As the kernel after the driver has gone: whatever a command is about, also where nothing need be asked of softibd,
// and though a device of the same name may be back.
TEST(Context, EveryCommandIsAnErrorOnceTheDeviceWasTakenOut) {
  World world;
  world.daemon.segment().devices[FakeDaemon::device_index].removals = 1;
  u32 known = 0;
  ib_uverbs_query_port request{};
  request.port_num = 1;
  for (u32 number = 0; number < 64; ++number) {
    if (!find_command(number)) continue;
    ++known;
    auto call = world.command<ib_uverbs_query_port, ib_uverbs_query_port_resp>(number, request);
    EXPECT_EQ(call.write(*world.file), -EIO) << "command " << number;
  }
  for (u16 object = 0; object < 32; ++object)
    for (u16 method = 0; method < 32; ++method) {
      if (!find_method(object, method)) continue;
      ++known;
      EXPECT_EQ(IoctlCall(world.window, object, method).run(*world.file), -EIO) << object << "." << method;
    }
  EXPECT_GT(known, 40U);
}

}  // namespace
}  // namespace softib::kernel::testing
