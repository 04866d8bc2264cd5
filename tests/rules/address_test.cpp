#include "hca/rules/address.h"

#include <gtest/gtest.h>

namespace softib::hca {
namespace {

struct TestPort : ipc::Port {
  explicit TestPort(ipc::LinkLayer layer) : ipc::Port{} {
    link_layer = layer;
    gid_count = 2;
  }
};

TEST(Address, EthernetNeedsAGrh) {
  TestPort port(ipc::LinkLayer::ethernet);
  ipc::AddressVector av{};
  av.dlid = 7;
  EXPECT_FALSE(check_address(av, port, AddressUse::connected));
  EXPECT_FALSE(check_address(av, port, AddressUse::datagram));
  av.is_global = 1;
  EXPECT_TRUE(check_address(av, port, AddressUse::connected));
  av.dlid = 0;
  EXPECT_TRUE(check_address(av, port, AddressUse::connected)) << "there are no LIDs on Ethernet";
  av.sgid_index = 2;
  EXPECT_FALSE(check_address(av, port, AddressUse::connected)) << "past the GID table";
}

TEST(Address, InfinibandNeedsALid) {
  TestPort port(ipc::LinkLayer::infiniband);
  ipc::AddressVector av{};
  EXPECT_FALSE(check_address(av, port, AddressUse::datagram));
  av.dlid = 0xbfff;
  EXPECT_TRUE(check_address(av, port, AddressUse::connected));
  av.sgid_index = 9;
  EXPECT_TRUE(check_address(av, port, AddressUse::connected)) << "without a GRH nobody looks at the index";
  av.is_global = 1;
  EXPECT_FALSE(check_address(av, port, AddressUse::connected));
  av.sgid_index = 1;
  av.sl = 16;
  EXPECT_FALSE(check_address(av, port, AddressUse::connected));
}

TEST(Address, GroupsAreForDatagrams) {
  TestPort ib(ipc::LinkLayer::infiniband);
  TestPort eth(ipc::LinkLayer::ethernet);
  ipc::AddressVector av{};
  av.dlid = 0xC000;
  av.is_global = 1;
  av.dgid.raw[0] = 0xff;
  EXPECT_TRUE(check_address(av, ib, AddressUse::datagram));
  EXPECT_TRUE(check_address(av, eth, AddressUse::datagram));
  EXPECT_FALSE(check_address(av, ib, AddressUse::connected));
  EXPECT_FALSE(check_address(av, eth, AddressUse::connected));
  const ipc::Gid ipv4_group{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
  const ipc::Gid ipv4_host{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}};
  EXPECT_TRUE(is_multicast_gid(ipv4_group));
  EXPECT_FALSE(is_multicast_gid(ipv4_host));
  EXPECT_FALSE(is_multicast_lid(permissive_lid));
  EXPECT_TRUE(is_multicast_lid(0xFFFE));
}

}  // namespace
}  // namespace softib::hca
