#include "shim/netlink.h"

#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "shim/host_tree.h"
#include "shim/netlink_devices.h"
#include "shim/netlink_parse.h"

namespace softib::shim {
namespace {

using tests::NetlinkMessage;
using tests::NetlinkRequest;

constexpr u32 port_id = 4711;

struct Netlink : testing::Test {
  std::vector<std::string> ask(const std::string& bytes) {
    return answer_netlink({reinterpret_cast<const u8*>(bytes.data()), bytes.size()}, port_id, devices);
  }
  std::vector<NetlinkMessage> messages(const NetlinkRequest& request) {
    std::vector<NetlinkMessage> all;
    for (const std::string& datagram : ask(request.finish()))
      for (auto& message : tests::split_datagram(datagram)) all.push_back(message);
    return all;
  }
  void expect_error(const NetlinkRequest& request, int error) {
    auto got = messages(request);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].header.nlmsg_type, NLMSG_ERROR);
    EXPECT_EQ(got[0].error(), -error);
  }

  tests::HostTree tree;
  std::vector<NetlinkDevice> devices = read_devices(tree.root() + "/sys");
};

TEST_F(Netlink, TreeIsReadWhole) {
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_EQ(devices[0].node_guid, 0x525400fffe000001U);
  EXPECT_EQ(devices[0].node_type, 1);
  EXPECT_EQ(devices[1].name, "mlx5_1");
  EXPECT_EQ(devices[1].index, 1U);
  EXPECT_EQ(devices[1].major, 231U);
  EXPECT_EQ(devices[1].minor, 193U);
  ASSERT_EQ(devices[0].ports.size(), 1U);
  const NetlinkPort& port = devices[0].ports[0];
  EXPECT_TRUE(port.infiniband);
  EXPECT_EQ(port.lid, 7U);
  EXPECT_EQ(port.state, 4);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(port.subnet_prefix, 0xfe80'0000'0000'0000U);
  EXPECT_FALSE(devices[1].ports[0].infiniband);
}

TEST(NetlinkDevices, NoTreeNoDevices) { EXPECT_TRUE(read_devices("/nonexistent/sys").empty()); }

TEST_F(Netlink, DumpListsAllDevicesAndEnds) {
  auto got = messages(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET, NLM_F_DUMP, 77));
  ASSERT_EQ(got.size(), 3U);
  for (u32 i = 0; i < 3; ++i) {
    EXPECT_EQ(got[i].header.nlmsg_seq, 77U);
    EXPECT_EQ(got[i].header.nlmsg_pid, port_id);
    EXPECT_TRUE(got[i].header.nlmsg_flags & NLM_F_MULTI);
  }
  EXPECT_EQ(got[0].header.nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
  EXPECT_EQ(got[0].text(RDMA_NLDEV_ATTR_DEV_NAME), "mlx5_0");
  EXPECT_EQ(got[0].get<u32>(RDMA_NLDEV_ATTR_DEV_INDEX), 0U);
  EXPECT_EQ(got[0].get<u32>(RDMA_NLDEV_ATTR_PORT_INDEX), 1U);
  EXPECT_EQ(got[0].get<u64>(RDMA_NLDEV_ATTR_NODE_GUID), 0x525400fffe000001U);
  EXPECT_EQ(got[0].get<u8>(RDMA_NLDEV_ATTR_DEV_NODE_TYPE), 1);
  EXPECT_EQ(got[0].text(RDMA_NLDEV_ATTR_DEV_PROTOCOL), "ib");
  EXPECT_EQ(got[1].text(RDMA_NLDEV_ATTR_DEV_NAME), "mlx5_1");
  EXPECT_EQ(got[1].text(RDMA_NLDEV_ATTR_DEV_PROTOCOL), "roce");
  EXPECT_EQ(got[2].header.nlmsg_type, NLMSG_DONE);
  EXPECT_EQ(got[2].error(), 0);
}

TEST_F(Netlink, LongDumpsComeInDatagramsThatFitAPage) {
  NetlinkDevice model = devices[0];
  devices.clear();
  for (u32 i = 0; i < 200; ++i) {
    model.index = i;
    devices.push_back(model);
  }
  u32 seen = 0;
  for (const std::string& datagram : ask(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).finish())) {
    EXPECT_LE(datagram.size(), 4096U);
    for (auto& message : tests::split_datagram(datagram)) {
      if (message.header.nlmsg_type == NLMSG_DONE) continue;
      EXPECT_EQ(message.get<u32>(RDMA_NLDEV_ATTR_DEV_INDEX), seen++);
    }
  }
  EXPECT_EQ(seen, 200U);
}

TEST_F(Netlink, OneDeviceByIndex) {
  auto got = messages(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET).put(RDMA_NLDEV_ATTR_DEV_INDEX, 1U));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].text(RDMA_NLDEV_ATTR_DEV_NAME), "mlx5_1");
  EXPECT_FALSE(got[0].header.nlmsg_flags & NLM_F_MULTI);
  expect_error(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET).put(RDMA_NLDEV_ATTR_DEV_INDEX, 2U), EINVAL);
  expect_error(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET), EINVAL);
}

TEST_F(Netlink, Ports) {
  auto got = messages(NetlinkRequest::nldev(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP).put(RDMA_NLDEV_ATTR_DEV_INDEX, 0U));
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].get<u32>(RDMA_NLDEV_ATTR_PORT_INDEX), 1U);
  EXPECT_EQ(got[0].get<u32>(RDMA_NLDEV_ATTR_LID), 7U);
  EXPECT_EQ(got[0].get<u8>(RDMA_NLDEV_ATTR_PORT_STATE), 4);
  EXPECT_EQ(got[0].get<u64>(RDMA_NLDEV_ATTR_CAP_FLAGS), 0x02514868U);
  auto one = NetlinkRequest::nldev(RDMA_NLDEV_CMD_PORT_GET).put(RDMA_NLDEV_ATTR_DEV_INDEX, 1U);
  auto ethernet = messages(one.put(RDMA_NLDEV_ATTR_PORT_INDEX, 1U));
  ASSERT_EQ(ethernet.size(), 1U);
  EXPECT_FALSE(ethernet[0].get<u32>(RDMA_NLDEV_ATTR_LID));
  auto absent = NetlinkRequest::nldev(RDMA_NLDEV_CMD_PORT_GET).put(RDMA_NLDEV_ATTR_DEV_INDEX, 1U);
  expect_error(absent.put(RDMA_NLDEV_ATTR_PORT_INDEX, 2U), EINVAL);
}

TEST_F(Netlink, CharacterDevice) {
  auto request = NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET_CHARDEV).put(RDMA_NLDEV_ATTR_DEV_INDEX, 1U);
  auto got = messages(request.put(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs"));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].text(RDMA_NLDEV_ATTR_CHARDEV_NAME), "uverbs1");
  EXPECT_EQ(got[0].get<u64>(RDMA_NLDEV_ATTR_CHARDEV), (231U << 8) | 193U);
  EXPECT_EQ(got[0].get<u64>(RDMA_NLDEV_ATTR_CHARDEV_ABI), 2U);
  EXPECT_EQ(got[0].get<u32>(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID), static_cast<u32>(RDMA_DRIVER_RXE));
}

TEST_F(Netlink, TheHostsConnectionManager) {
  auto got = messages(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET_CHARDEV).put(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "rdma_cm"));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].text(RDMA_NLDEV_ATTR_CHARDEV_NAME), "rdma_cm");
  EXPECT_EQ(got[0].get<u64>(RDMA_NLDEV_ATTR_CHARDEV), (10U << 8) | 58U);
  EXPECT_EQ(got[0].get<u64>(RDMA_NLDEV_ATTR_CHARDEV_ABI), 4U);
}

TEST_F(Netlink, AbsentCharacterDevices) {
  for (const char* type : {"umad", "issm", "rdma_cm"}) {  // rdma_cm is no device's
    auto request = NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET_CHARDEV).put(RDMA_NLDEV_ATTR_DEV_INDEX, 0U);
    expect_error(request.put(RDMA_NLDEV_ATTR_CHARDEV_TYPE, type), EOPNOTSUPP);
  }
  expect_error(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET_CHARDEV), EINVAL);
}

TEST_F(Netlink, MinorNumbersAboveAByte) {
  devices[0].minor = 0x1234;
  auto request = NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET_CHARDEV).put(RDMA_NLDEV_ATTR_DEV_INDEX, 0U);
  auto got = messages(request.put(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs"));
  ASSERT_EQ(got.size(), 1U);
  u64 number = got[0].get<u64>(RDMA_NLDEV_ATTR_CHARDEV).value();
  // the reader's side, as rdma-core decodes it
  EXPECT_EQ((number & 0xfff00) >> 8, 231U);
  EXPECT_EQ((number & 0xff) | ((number >> 12) & 0xfff00), 0x1234U);
}

TEST_F(Netlink, SystemSaysCopyOnFork) {
  auto got = messages(NetlinkRequest::nldev(RDMA_NLDEV_CMD_SYS_GET));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].get<u8>(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK), 1);
  EXPECT_EQ(got[0].get<u8>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE), 1);
}

TEST_F(Netlink, WhatIsNotThere) {
  expect_error(NetlinkRequest::nldev(RDMA_NLDEV_CMD_STAT_GET), EINVAL);
  expect_error(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_DUMP), EINVAL);
  expect_error(NetlinkRequest::nldev(RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP), EOPNOTSUPP);
  expect_error(NetlinkRequest(static_cast<u16>(RDMA_NL_GET_TYPE(RDMA_NL_LS, 0)), 0, 1), EINVAL);
  expect_error(NetlinkRequest::nldev(4000 % 1024), EINVAL);
}

TEST_F(Netlink, AcknowledgementFollowsTheAnswer) {
  auto got = messages(NetlinkRequest::nldev(RDMA_NLDEV_CMD_SYS_GET, NLM_F_ACK, 5));
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1].header.nlmsg_type, NLMSG_ERROR);
  EXPECT_EQ(got[1].header.nlmsg_seq, 5U);
  EXPECT_EQ(got[1].error(), 0);
  // a list has its end mark instead
  EXPECT_EQ(messages(NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET, NLM_F_ACK | NLM_F_DUMP)).back().header.nlmsg_type,
            NLMSG_DONE);
}

TEST_F(Netlink, SeveralRequestsInOneDatagram) {
  std::string two = NetlinkRequest::nldev(RDMA_NLDEV_CMD_SYS_GET, 0, 1).finish() +
                    NetlinkRequest::nldev(RDMA_NLDEV_CMD_STAT_GET, 0, 2).finish();
  auto datagrams = ask(two);
  ASSERT_EQ(datagrams.size(), 2U);
  EXPECT_EQ(tests::split_datagram(datagrams[1])[0].header.nlmsg_seq, 2U);
}

TEST_F(Netlink, MalformedRequests) {
  std::string whole = NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET).put(RDMA_NLDEV_ATTR_DEV_INDEX, 0U).finish();
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_TRUE(ask(whole.substr(0, length)).empty()) << length;
  std::string wrong = whole;
  wrong[sizeof(nlmsghdr)] = 2;  // an attribute shorter than its header
  EXPECT_EQ(tests::split_datagram(ask(wrong).at(0))[0].error(), -EINVAL);
  wrong[sizeof(nlmsghdr)] = 100;  // and one beyond the end
  EXPECT_EQ(tests::split_datagram(ask(wrong).at(0))[0].error(), -EINVAL);
}

}  // namespace
}  // namespace softib::shim
