#include "ipoib/addresses.h"
#include "texts.h"

#include <gtest/gtest.h>

namespace softib::ipoib {
namespace {

std::string hex(const GidBytes& gid) { return to_text(make_ip(Family::v6, gid.data())); }

TEST(Addresses, GroupsMapToGidsOfTheirPartition) {
  const GroupSpace space{0xffff, 2};
  EXPECT_EQ(hex(space.broadcast()), "ff12:401b:ffff::ffff:ffff");
  EXPECT_EQ(hex(space.group(ip("224.0.0.1"))), "ff12:401b:ffff::1");
  EXPECT_EQ(hex(space.group(ip("239.255.1.2"))), "ff12:401b:ffff::fff:102");  // 28 bits
  const GroupSpace child{0x8001, 5};
  EXPECT_EQ(hex(child.broadcast()), "ff15:401b:8001::ffff:ffff");
  EXPECT_EQ(hex(child.group(ip("ff02::1"))), "ff15:601b:8001::1");
  EXPECT_EQ(hex(child.group(ip("ff02:1:2:3:4:5:6:7"))), "ff15:601b:8001:3:4:5:6:7");  // 80 bits
}

TEST(Addresses, HardwareAddressComesBackAsItWent) {
  HardwareAddress address{1, 0xabcdef, {}};
  for (u8 i = 0; i < 16; ++i) address.gid[i] = i;
  const auto bytes = address.emit();
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[1], 0xab);
  EXPECT_EQ(bytes[3], 0xef);
  EXPECT_EQ(bytes[4], 0);
  EXPECT_EQ(bytes[19], 15);
  EXPECT_EQ(HardwareAddress::parse(bytes), address);
}

TEST(Addresses, LinkLocalHasTheUniversalBit) {
  EXPECT_EQ(to_text(link_local(0x0002c90300001234)), "fe80::202:c903:0:1234");
  EXPECT_EQ(to_text(link_local(0x525400fffe000001)), "fe80::5254:ff:fe00:1");
}

TEST(Addresses, PrefixesAreReadAndCompared) {
  const auto one = parse_prefixed("10.1.2.3/12");
  ASSERT_TRUE(one);
  EXPECT_EQ(to_text(broadcast_of(*one)), "10.15.255.255");
  EXPECT_TRUE(same_network(one->ip, ip("10.14.0.1"), 12));
  EXPECT_FALSE(same_network(one->ip, ip("10.16.0.1"), 12));
  EXPECT_TRUE(same_network(one->ip, ip("1.1.1.1"), 0));
  EXPECT_FALSE(same_network(one->ip, ip("::1"), 0));
  EXPECT_EQ(parse_prefixed("::1")->prefix, 128);
  for (const char* wrong : {"", "10.1.2", "10.1.2.3/", "10.1.2.3/33", "10.1.2.3/8x", "::1/129", "host"})
    EXPECT_FALSE(parse_prefixed(wrong)) << wrong;
}

}  // namespace
}  // namespace softib::ipoib
