#include "ipoib/netlink.h"

#include <gtest/gtest.h>

namespace softib::ipoib {
namespace {

constexpr const char* igmp =
    "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
    "1\tlo        :     1      V3\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
    "5\tib0       :     2      V3\n"
    "\t\t\t\t030201EF     1 0:00000000\t\t0\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n";
constexpr const char* igmp6 =
    "1    lo              ff020000000000000000000000000001     1 0000000C 0\n"
    "5    ib0             ff0200000000000000000001ff000001     1 00000004 0\n"
    "7    ib0.8001        ff020000000000000000000000000002     1 00000004 0\n";

TEST(Groups, AreReadOfOneInterface) {
  std::vector<std::string> texts;
  for (const Ip& ip : parse_groups("ib0", igmp, igmp6)) texts.push_back(to_text(ip));
  EXPECT_EQ(texts, (std::vector<std::string>{"239.1.2.3", "224.0.0.1", "ff02::1:ff00:1"}));
  EXPECT_EQ(parse_groups("ib0.8001", igmp, igmp6).size(), 1U);
  EXPECT_TRUE(parse_groups("ib1", igmp, igmp6).empty());
  EXPECT_TRUE(parse_groups("ib0", "ib0\n\tzz\n\n", "1 ib0 ff02\n").empty());
}

// The loopback interface is there without any rights.
TEST(Netlink, TellsAddressesAndNextHops) {
  auto netlink = Netlink::open();
  ASSERT_TRUE(netlink);
  const auto addresses = netlink->addresses(1);
  ASSERT_TRUE(addresses);
  for (const Prefixed& one : *addresses) EXPECT_LE(one.prefix, one.ip.size() * 8);
  const Ip local = parse_ip("127.0.0.1").value();
  for (int again = 0; again < 3; ++again) {  // one question does not spoil the next
    const auto hop = netlink->next_hop(1, local);
    ASSERT_TRUE(hop) << to_int(hop.error());
    EXPECT_EQ(*hop, local);
    EXPECT_FALSE(netlink->next_hop(1'000'000, local));
    EXPECT_EQ(netlink->addresses(1), addresses);
  }
  const auto refused = netlink->set_link(1'000'000, LinkSettings{});
  ASSERT_FALSE(refused);
}

}  // namespace
}  // namespace softib::ipoib
