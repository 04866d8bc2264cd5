// The ioctl and write parsers by themselves: headers, attributes, sizes, for every row of both tables.
#include "world.h"

#include <gtest/gtest.h>

namespace softib::kernel::testing {
namespace {

void drop(IoctlCall& call, u16 id) {
  std::erase_if(call.attributes, [id](const ib_uverbs_attr& attribute) { return attribute.attr_id == id; });
}

ib_uverbs_attr& pick(IoctlCall& call, u16 id) {
  return *std::find_if(call.attributes.begin(), call.attributes.end(),
                       [id](const ib_uverbs_attr& attribute) { return attribute.attr_id == id; });
}

class Parser : public ::testing::Test {
 protected:
  void SetUp() override { world.make_objects(); }
  IoctlCall query_port() {
    IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
    call.constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1);
    call.out(UVERBS_ATTR_QUERY_PORT_RESP, sizeof(ib_uverbs_query_port_resp_ex));
    return call;
  }
  World world;
};

TEST_F(Parser, TheWorldIsThere) {
  for (u32 handle : {world.pd, world.cq, world.srq, world.qp, world.mr, world.mw, world.ah}) EXPECT_NE(handle, 0U);
}

TEST_F(Parser, AGoodCallPasses) { EXPECT_EQ(query_port().run(*world.file), 0); }

TEST_F(Parser, UnreadableHeader) {
  EXPECT_EQ(world.file->ioctl(0), -EFAULT);
  EXPECT_EQ(world.file->ioctl(Window::base + Window::size - 4), -EFAULT);
  EXPECT_EQ(world.file->ioctl(~0ULL), -EFAULT);
}

TEST_F(Parser, WrongLengths) {
  for (u16 length : {0, 1, 23, 24, 40, 57, 4095, 4096, 4097, 65535}) {
    IoctlCall call = query_port();
    call.fixed_length = true;
    call.header.length = length;
    EXPECT_EQ(call.run(*world.file), -EINVAL) << length;
  }
}

TEST_F(Parser, MoreAttributesThanAPageHolds) {
  IoctlCall call = query_port();
  u64 at = call.store();
  IoctlCall::Header header = call.header;
  header.num_attrs = 4096;
  header.length = static_cast<u16>(sizeof header + 4096 * sizeof(ib_uverbs_attr));
  world.window.set(at, &header, sizeof header);
  EXPECT_EQ(world.file->ioctl(at), -EINVAL);
}

TEST_F(Parser, AttributesBeyondReadableMemory) {
  IoctlCall call = query_port();
  call.store();
  IoctlCall::Header header = call.header;
  u64 at = Window::base + Window::size - sizeof header;
  world.window.set(at, &header, sizeof header);
  EXPECT_EQ(world.file->ioctl(at), -EFAULT);
}

TEST_F(Parser, ReservedFields) {
  IoctlCall first = query_port();
  first.header.reserved1 = 1;
  EXPECT_EQ(first.run(*world.file), -EPROTONOSUPPORT);
  IoctlCall second = query_port();
  second.header.reserved2 = 1;
  EXPECT_EQ(second.run(*world.file), -EPROTONOSUPPORT);
}

TEST_F(Parser, AnotherDriver) {
  IoctlCall call = query_port();
  call.header.driver_id = RDMA_DRIVER_MLX5;
  EXPECT_EQ(call.run(*world.file), -EINVAL);
}

TEST_F(Parser, UnknownMethodsAndObjects) {
  for (u16 object : {UVERBS_OBJECT_FLOW, UVERBS_OBJECT_XRCD, UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_OBJECT_WQ,
                     UVERBS_OBJECT_FLOW_ACTION, UVERBS_OBJECT_DM, UVERBS_OBJECT_COUNTERS, UVERBS_OBJECT_COMP_CHANNEL}) {
    for (u16 method : {0, 1, 2}) {
      EXPECT_EQ(IoctlCall(world.window, object, method).run(*world.file), -EPROTONOSUPPORT) << object;
    }
  }
  EXPECT_EQ(IoctlCall(world.window, 0x1000, 0).run(*world.file), -EPROTONOSUPPORT);
  EXPECT_EQ(IoctlCall(world.window, UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG).run(*world.file), -EPROTONOSUPPORT);
  EXPECT_EQ(IoctlCall(world.window, UVERBS_OBJECT_DEVICE, 0xffff).run(*world.file), -EPROTONOSUPPORT);
}

TEST_F(Parser, UnknownAttributeCountsOnlyWhenMandatory) {
  IoctlCall mandatory = query_port();
  mandatory.data(200, 0, 8);
  EXPECT_EQ(mandatory.run(*world.file), -EPROTONOSUPPORT);
  IoctlCall optional = query_port();
  ib_uverbs_attr unknown{};
  unknown.attr_id = 200;
  optional.raw(unknown).raw(unknown);
  EXPECT_EQ(optional.run(*world.file), 0);
}

TEST_F(Parser, AnswersAreMarked) {
  IoctlCall call = query_port();
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_TRUE(call.attribute(UVERBS_ATTR_QUERY_PORT_RESP).flags & UVERBS_ATTR_F_VALID_OUTPUT);
  EXPECT_FALSE(call.attribute(UVERBS_ATTR_QUERY_PORT_PORT_NUM).flags & UVERBS_ATTR_F_VALID_OUTPUT);
}

TEST_F(Parser, UnwritableAnswer) {
  IoctlCall call = query_port();
  pick(call, UVERBS_ATTR_QUERY_PORT_RESP).data = 16;
  EXPECT_EQ(call.run(*world.file), -EFAULT);
}

TEST_F(Parser, EveryRowWantsItsMandatoryAttributes) {
  for (const MethodRow& row : method_table()) {
    for (const AttrSpec& spec : row.attributes) {
      if (spec.need == Need::optional) continue;
      world.window.reset();
      IoctlCall call = well_formed(world, row);
      drop(call, spec.id);
      EXPECT_EQ(call.run(*world.file), -EINVAL) << row.name << " without " << spec.id;
    }
  }
}

TEST_F(Parser, EveryRowRefusesDuplicates) {
  for (const MethodRow& row : method_table()) {
    if (row.attributes.empty() || row.attributes[0].need == Need::optional) continue;
    world.window.reset();
    IoctlCall call = well_formed(world, row);
    call.raw(call.attributes[0]);
    EXPECT_EQ(call.run(*world.file), -EINVAL) << row.name;
  }
}

TEST_F(Parser, EveryRowChecksSizes) {
  for (const MethodRow& row : method_table()) {
    for (const AttrSpec& spec : row.attributes) {
      if (spec.need == Need::optional) continue;
      bool handle = spec.kind != AttrKind::in && spec.kind != AttrKind::out;
      if (!handle && spec.min_size > 0) {
        world.window.reset();
        IoctlCall call = well_formed(world, row);
        pick(call, spec.id).len = static_cast<u16>(spec.min_size - 1);
        EXPECT_EQ(call.run(*world.file), -EINVAL) << row.name << " short " << spec.id;
      }
      if (spec.max_size == attr::any_size || spec.zero_trailing) continue;
      world.window.reset();
      IoctlCall call = well_formed(world, row);
      pick(call, spec.id).len = static_cast<u16>(spec.max_size + 1);
      EXPECT_EQ(call.run(*world.file), -EINVAL) << row.name << " long " << spec.id;
    }
  }
}

TEST_F(Parser, EveryRowChecksReservedBits) {
  for (const MethodRow& row : method_table()) {
    for (const AttrSpec& spec : row.attributes) {
      if (spec.need == Need::optional) continue;
      world.window.reset();
      IoctlCall call = well_formed(world, row);
      pick(call, spec.id).attr_data.reserved = 1;
      EXPECT_EQ(call.run(*world.file), -EINVAL) << row.name << " reserved of " << spec.id;
    }
  }
}

TEST_F(Parser, EveryRowKnowsNoSuchHandle) {
  for (const MethodRow& row : method_table()) {
    for (const AttrSpec& spec : row.attributes) {
      bool named = spec.kind == AttrKind::object_read || spec.kind == AttrKind::object_destroy;
      if (!named || spec.object == ipc::ObjectKind::pd) continue;
      for (u64 handle : {u64{0}, u64{1} << 20, u64{1} << 32 | 1, ~u64{0}}) {
        world.window.reset();
        IoctlCall call = well_formed(world, row);
        drop(call, spec.id);
        call.handle(spec.id, handle);
        EXPECT_EQ(call.run(*world.file), handle >> 63 ? -EINVAL : -ENOENT) << row.name << " handle " << handle;
      }
    }
  }
}

TEST_F(Parser, OnlyGetContextWorksWithoutAContext) {
  for (const MethodRow& row : method_table()) {
    if (!row.needs_context) continue;
    World fresh(false);
    IoctlCall call = well_formed(fresh, row);
    int result = call.run(*fresh.file);
    EXPECT_TRUE(result == -EINVAL || result == -ENOENT) << row.name << " " << result;
    EXPECT_TRUE(fresh.daemon.calls.empty()) << row.name;
  }
}

TEST_F(Parser, ExtensibleStructures) {
  struct Longer {
    ib_uverbs_qp_cap caps;
    u32 more;
  };
  auto call_with = [&](const Longer& caps) {
    IoctlCall call(world.window, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    call.in(UVERBS_ATTR_CREATE_QP_CAP, caps);
    return call.run(*world.file);
  };
  EXPECT_EQ(call_with({{}, 1}), -EOPNOTSUPP);  // something there that we don't know
  EXPECT_EQ(call_with({{}, 0}), -EINVAL);      // only the other attributes are missing
}

// -- write()

TEST_F(Parser, WriteHeaders) {
  EXPECT_EQ(world.file->write(Window::base, 0), -EINVAL);
  EXPECT_EQ(world.file->write(Window::base, 7), -EINVAL);
  EXPECT_EQ(world.file->write(16, 8), -EFAULT);
}

ssize_t write_header(World& world, u32 command, u16 in_words, u16 out_words, size_t length) {
  ib_uverbs_cmd_hdr header{command, in_words, out_words};
  u64 at = world.window.room(512);
  world.window.set(at, &header, sizeof header);
  return world.file->write(at, length);
}

TEST_F(Parser, UnknownCommands) {
  for (u32 command : {IB_USER_VERBS_CMD_MODIFY_AH, IB_USER_VERBS_CMD_QUERY_AH, IB_USER_VERBS_CMD_REG_SMR,
                      IB_USER_VERBS_CMD_QUERY_MR, IB_USER_VERBS_CMD_BIND_MW, IB_USER_VERBS_CMD_PEEK_CQ,
                      IB_USER_VERBS_CMD_OPEN_XRCD, IB_USER_VERBS_CMD_CLOSE_XRCD, IB_USER_VERBS_CMD_OPEN_QP}) {
    EXPECT_EQ(write_header(world, command, 2, 0, 8), -EOPNOTSUPP) << command;
  }
  EXPECT_EQ(write_header(world, 255, 2, 0, 8), -EOPNOTSUPP);
  EXPECT_EQ(write_header(world, 256, 2, 0, 8), -EINVAL);
  EXPECT_EQ(write_header(world, 0x4000'0003, 2, 0, 8), -EINVAL);
  for (u32 command : {IB_USER_VERBS_EX_CMD_CREATE_FLOW, IB_USER_VERBS_EX_CMD_DESTROY_FLOW,
                      IB_USER_VERBS_EX_CMD_CREATE_WQ, IB_USER_VERBS_EX_CMD_MODIFY_CQ}) {
    EXPECT_EQ(write_header(world, command | IB_USER_VERBS_CMD_FLAG_EXTENDED, 2, 0, 24), -EOPNOTSUPP) << command;
  }
}

TEST_F(Parser, EveryCommandChecksItsSizes) {
  for (const CommandRow& row : command_table()) {
    world.window.reset();
    if (row.extended()) {
      EXPECT_EQ(write_header(world, row.command, 0, 0, 8), -EINVAL) << row.name;
      EXPECT_EQ(write_header(world, row.command, 1, 0, 24), -EINVAL) << row.name;
      EXPECT_EQ(write_header(world, row.command, 0, 0, 24), -ENOSPC) << row.name;
      continue;
    }
    size_t whole = sizeof(ib_uverbs_cmd_hdr) + row.request_size;
    auto words = static_cast<u16>(whole / 4);
    EXPECT_EQ(write_header(world, row.command, words, 0, whole + 4), -EINVAL) << row.name;
    EXPECT_EQ(write_header(world, row.command, static_cast<u16>(words - 1), 100, whole - 4), -ENOSPC) << row.name;
    if (row.response_size == 0) continue;
    EXPECT_EQ(write_header(world, row.command, words, 0, whole), -ENOSPC) << row.name;
  }
}

TEST_F(Parser, EveryCommandChecksItsSizesInsideAnIoctl) {
  for (const CommandRow& row : command_table()) {
    world.window.reset();
    IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    call.constant(UVERBS_ATTR_WRITE_CMD, row.command);
    call.data(UVERBS_ATTR_CORE_IN, world.window.room(256), static_cast<u16>(std::max(4, row.request_size - 4)));
    if (row.request_size <= 4) continue;
    EXPECT_EQ(call.run(*world.file), -ENOSPC) << row.name;
  }
}

TEST_F(Parser, CommandsNeedAContext) {
  for (const CommandRow& row : command_table()) {
    if (!row.needs_context) continue;
    World fresh(false);
    IoctlCall call(fresh.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    call.constant(UVERBS_ATTR_WRITE_CMD, row.command);
    call.data(UVERBS_ATTR_CORE_IN, fresh.window.room(256), std::max<u16>(row.request_size, 16));
    call.data(UVERBS_ATTR_CORE_OUT, fresh.window.room(512), 512);
    EXPECT_EQ(call.run(*fresh.file), -EINVAL) << row.name;
    EXPECT_TRUE(fresh.daemon.calls.empty()) << row.name;
  }
}

TEST_F(Parser, InvokeWriteWantsAKnownCommand) {
  for (auto [command, expected] :
       {std::pair{u64{IB_USER_VERBS_CMD_OPEN_XRCD}, EOPNOTSUPP}, {u64{0x100}, EINVAL}, {u64{1} << 32, EINVAL}}) {
    IoctlCall call(world.window, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    call.constant(UVERBS_ATTR_WRITE_CMD, command);
    EXPECT_EQ(call.run(*world.file), -expected) << command;
  }
}

TEST_F(Parser, LongerRequestsMustBeZeroBehind) {
  struct Longer {
    ib_uverbs_dealloc_pd request;
    u32 more;
  };
  u32 pd = world.make_pd();
  EXPECT_EQ((world.command<Longer>(IB_USER_VERBS_CMD_DEALLOC_PD, {{pd}, 1}).invoke(*world.file)), -EOPNOTSUPP);
  EXPECT_EQ((world.command<Longer>(IB_USER_VERBS_CMD_DEALLOC_PD, {{pd}, 0}).invoke(*world.file)), 0);
}

TEST_F(Parser, ExtendedWriteResponseRules) {
  struct Call {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_ex_cmd_hdr more;
    ib_uverbs_ex_query_device request;
  };
  Call call{{IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, 1, 0}, {}, {}};
  auto run = [&] { return world.file->write(world.window.put(call), sizeof call); };
  call.more.response = Window::base;
  EXPECT_EQ(run(), -EINVAL);  // a response address without room
  call.more.response = 0;
  call.header.out_words = 64;
  EXPECT_EQ(run(), -EINVAL);  // room without an address
  call.more.response = world.window.room(512);
  call.more.cmd_hdr_reserved = 1;
  EXPECT_EQ(run(), -EINVAL);
  call.more.cmd_hdr_reserved = 0;
  call.header.out_words = 1;
  EXPECT_EQ(run(), -ENOSPC);
  call.header.out_words = 64;
  EXPECT_EQ(run(), static_cast<ssize_t>(sizeof call));
}

}  // namespace
}  // namespace softib::kernel::testing
