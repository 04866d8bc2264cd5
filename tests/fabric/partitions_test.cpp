#include "fabric/partitions.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace softib::fabric {
namespace {

using Keys = std::vector<u16>;

TEST(Partitions, NoneAtAllMeansEveryoneIsAFullMember) {
  const Partitions all = parse_partitions(" \n# nothing\n");
  EXPECT_EQ(parse_partitions("").keys(NodeType::ca, 1, false), Keys{0xffff});
  ASSERT_EQ(parse_partitions("").groups.size(), 1U);
  EXPECT_EQ(parse_partitions("").groups[0].flags.qkey, 0x0b1bU);
  EXPECT_TRUE(all.errors.empty());
}

TEST(Partitions, WithoutARuleForTheDefaultAllAreLimited) {
  const Partitions all = parse_partitions("A=0x10: 0x1=full, 0x2;\n");
  EXPECT_TRUE(all.errors.empty());
  EXPECT_EQ(all.keys(NodeType::ca, 1, false), (Keys{0x7fff, 0x8010}));
  EXPECT_EQ(all.keys(NodeType::ca, 2, false), (Keys{0x7fff, 0x0010}));
  EXPECT_EQ(all.keys(NodeType::ca, 3, true), Keys{0xffff});
}

TEST(Partitions, ALineForTheDefaultAddsToWhatItIs) {
  const Partitions all = parse_partitions("Default=0x7fff: 0x1=full;\n");
  EXPECT_EQ(all.keys(NodeType::ca, 1, false), Keys{0xffff});
  EXPECT_EQ(all.keys(NodeType::ca, 2, false), Keys{0x7fff});
  const Partitions exact = parse_exact_partitions("Default=0x7fff: 0x1=full;\nA=2: 0x2=full;\n");
  EXPECT_EQ(exact.keys(NodeType::ca, 1, false), Keys{0xffff});
  EXPECT_EQ(exact.keys(NodeType::ca, 2, false), Keys{0x8002});
  EXPECT_EQ(exact.keys(NodeType::sw, 3, true), Keys{0xffff}) << "the manager's own";
}

TEST(Partitions, TheLastRuleThatNamesAPortCounts) {
  const Partitions all = parse_partitions("Default=0x7fff: ALL=full, 0x2=limited;\nA=3: 0x1=limited, ALL=full;\n");
  EXPECT_EQ(all.keys(NodeType::ca, 1, false), (Keys{0xffff, 0x8003}));
  EXPECT_EQ(all.keys(NodeType::ca, 2, false), (Keys{0x7fff, 0x8003}));
  EXPECT_EQ(all.keys(NodeType::ca, 2, true), (Keys{0xffff, 0x8003})) << "the manager is always a full member";
}

TEST(Partitions, WhatTheDocumentationShows) {
  const Partitions all = parse_partitions(R"(
Default=0x7fff : ALL, ALL_SWITCHES=full, SELF=full ;
NewPartition , ipoib : 0x123456=full, 0x3456789034=limi, 0x2134af2306 ;
YetAnotherOne = 0x300 : SELF=full ;
YetAnotherOne = 0x300 : ALL=limited ;
ShareIO = 0x80 , defmember=full : 0x123451, 0x123452;
# 0x123453, 0x123454 will be limited
ShareIO = 0x80 : 0x123453, 0x123454, 0x123455=full;
ShareIO = 0x80 , defmember=full : 0x12345b, 0x12345c=limited,
   0x12345d;
)");
  for (const auto& error : all.errors) ADD_FAILURE() << error;
  EXPECT_EQ(all.keys(NodeType::ca, 0x123456, false), (Keys{0x7fff, 0x8001, 0x0300}));
  EXPECT_EQ(all.keys(NodeType::ca, 0x3456789034, false), (Keys{0x7fff, 0x0001, 0x0300}));
  EXPECT_EQ(all.keys(NodeType::sw, 9, false), (Keys{0xffff, 0x0300}));
  EXPECT_EQ(all.keys(NodeType::ca, 0x123451, false), (Keys{0x7fff, 0x0300, 0x8080}));
  EXPECT_EQ(all.keys(NodeType::ca, 0x123453, false), (Keys{0x7fff, 0x0300, 0x0080}));
  EXPECT_EQ(all.keys(NodeType::ca, 0x123455, false), (Keys{0x7fff, 0x0300, 0x8080}));
  EXPECT_EQ(all.keys(NodeType::ca, 0x12345c, false), (Keys{0x7fff, 0x0300, 0x0080}));
  EXPECT_EQ(all.keys(NodeType::ca, 0x12345d, false), (Keys{0x7fff, 0x0300, 0x8080}));
}

TEST(Partitions, Groups) {
  const Partitions all = parse_partitions(R"(
Default=0x7fff,ipoib, rate=7 , mtu=5, sl=3:
        mgid=ff12:401b::0707,sl=1 # random IPv4 group
        mgid=ff12:601b::16    # MLDv2-capable routers
        mgid=ff12::1,sl=1,Q_Key=0xDEADBEEF,rate=3,mtu=2,scope=2,scope=5 # random group
        ALL=full;
)");
  for (const auto& error : all.errors) ADD_FAILURE() << error;
  ASSERT_EQ(all.groups.size(), 5U);
  EXPECT_EQ(all.groups[0].mgid, ipoib_broadcast(0xffff));
  EXPECT_EQ(all.groups[0].flags.rate, 7);
  EXPECT_EQ(all.groups[0].flags.mtu, 5);
  EXPECT_EQ(all.groups[0].flags.sl, 3);
  EXPECT_EQ(all.groups[1].mgid[4], 0xff);
  EXPECT_EQ(all.groups[1].mgid[15], 0x07);
  EXPECT_EQ(all.groups[1].flags.sl, 1);
  EXPECT_EQ(all.groups[1].flags.qkey, 0x0b1bU);
  EXPECT_EQ(all.groups[3].mgid[1], 0x12);
  EXPECT_EQ(all.groups[4].mgid[1], 0x15);
  EXPECT_EQ(all.groups[4].flags.qkey, 0xdeadbeefU);
}

TEST(Partitions, Index0AndBoth) {
  const Partitions all = parse_partitions("Default=0x7fff:ALL=full;\nB=5,indx0:0x1=both;\n");
  EXPECT_EQ(all.keys(NodeType::ca, 1, false), (Keys{0x8005, 0xffff, 0x0005}));
}

TEST(Partitions, ErrorsNameTheLineAndTheRestStands) {
  const std::pair<const char*, const char*> cases[] = {
      {"Default=0x7fff:ALL=full;\nno colon here;\n", "partitions.conf:2: no ':'"},
      {"Default=0x7fff:\n ALL=full,\n guid7;\n", "partitions.conf:3: bad port GUID 'guid7'"},
      {"Default=0x7fff:ALL=full;\nX=zz:ALL;\n", "partitions.conf:2: bad P_Key 'zz'"},
      {"Default=0x7fff:ALL=fool;\n", "partitions.conf:1: membership is"},
      {"Default=0x7fff,speed=3:ALL=full;\n", "partitions.conf:1: unknown flag 'speed'"},
      {"Default=0x7fff,mtu=9:ALL=full;\n", "partitions.conf:1: mtu is a number from 1 to 5"},
      {"Default=0x7fff:\nmgid=fe80::1\nALL=full;\n", "partitions.conf:2: 'fe80::1' is no multicast GID"},
      {"Default=0x7fff:\nmgid=ff12:401b:8001::1\nALL=full;\n", "partitions.conf:2: the MGID names P_Key 0x8001"},
      {"Default=0x7fff:ALL=full", "partitions.conf:1: no ';'"},
      {"Default=0x7fff:\n ALL=full\n\nB=3: 0x1=full;\n", "partitions.conf:2: no ';' at the end; another"},
  };
  for (const auto& [text, error] : cases) {
    const Partitions all = parse_partitions(text);
    ASSERT_EQ(all.errors.size(), 1U) << text;
    EXPECT_TRUE(all.errors[0].starts_with(error)) << all.errors[0];
    EXPECT_EQ(all.keys(NodeType::ca, 5, false).size(), 1U) << text;
  }
}

TEST(Partitions, AnyTextIsTaken) {
  EXPECT_TRUE(rc::check([] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("Default=0x7f,:;#\n ALLmgid=f:1")));
    const Partitions all = parse_partitions(text);
    for (const auto& error : all.errors) RC_ASSERT(error.starts_with("partitions.conf:"));
    (void)all.keys(NodeType::ca, 1, true);
  }));
}

}  // namespace
}  // namespace softib::fabric
