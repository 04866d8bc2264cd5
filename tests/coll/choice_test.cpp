// Which GID of a port is used, and which port of one rank talks to which of another.
#include "coll/transport/verbs/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace softib::coll::verbs {

namespace {

Gid ipv4_gid(u8 last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}; }
Gid global_gid(u8 last) { return {0xfd, 0x53, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }
Gid local_gid(u8 last) { return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }

// As a kernel fills the table of a RoCE port: each address twice.
std::vector<GidEntry> roce_table() {
  return {{0, local_gid(1), GidKind::roce_v1},  {1, local_gid(1), GidKind::roce_v2},
          {2, global_gid(1), GidKind::roce_v1}, {3, global_gid(1), GidKind::roce_v2},
          {4, ipv4_gid(1), GidKind::roce_v1},   {5, ipv4_gid(1), GidKind::roce_v2},
          {6, ipv4_gid(2), GidKind::roce_v2}};
}

PortAddress port(const std::string& name, const Gid& gid, LinkLayer layer, GidKind kind) {
  PortAddress address;
  std::copy_n(name.data(), name.size(), address.name.data());
  address.gid = gid;
  address.layer = layer;
  address.gid_kind = kind;
  return address;
}

PortAddress on_subnet(u8 subnet, u8 number) {
  Gid gid = local_gid(number);
  gid[7] = subnet;
  return port("ib" + std::to_string(number), gid, LinkLayer::infiniband, GidKind::infiniband);
}

PortAddress on_ethernet(const Gid& gid, GidKind kind = GidKind::roce_v2) {
  return port("eth", gid, LinkLayer::ethernet, kind);
}

std::vector<std::pair<u32, u32>> pairs(std::vector<PortAddress> lower, std::vector<PortAddress> higher) {
  std::vector<std::pair<u32, u32>> result;
  for (const RailPair& pair : pair_rails(lower, higher)) result.emplace_back(pair.lower, pair.higher);
  return result;
}

using Pairs = std::vector<std::pair<u32, u32>>;

}  // namespace

TEST(ChooseGid, RoceV2AndIpv4First) {
  auto table = roce_table();
  const u32 best[] = {5, 6, 3, 1, 4, 2, 0};
  for (const u32 index : best) {
    const auto chosen = choose_gid(table, LinkLayer::ethernet, std::nullopt);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->index, index);
    std::erase_if(table, [&](const GidEntry& entry) { return entry.index == index; });
  }
  EXPECT_FALSE(choose_gid(table, LinkLayer::ethernet, std::nullopt));
}

TEST(ChooseGid, TheFirstOnInfiniband) {
  const std::vector<GidEntry> table{{0, local_gid(1), GidKind::infiniband}, {1, global_gid(1), GidKind::infiniband}};
  EXPECT_EQ(choose_gid(table, LinkLayer::infiniband, std::nullopt)->index, 0u);
}

TEST(ChooseGid, WhatIsWantedOrNothing) {
  EXPECT_EQ(choose_gid(roce_table(), LinkLayer::ethernet, 2)->index, 2u);
  EXPECT_FALSE(choose_gid(roce_table(), LinkLayer::ethernet, 9));
}

TEST(ChooseGid, EmptyEntriesAreNone) {
  const std::vector<GidEntry> table{{0, Gid{}, GidKind::roce_v2}, {1, local_gid(1), GidKind::roce_v1}};
  EXPECT_EQ(choose_gid(table, LinkLayer::ethernet, std::nullopt)->index, 1u);
  EXPECT_FALSE(choose_gid(table, LinkLayer::ethernet, 0));
}

TEST(PairRails, InTheOrderOfTheLists) {
  EXPECT_EQ(pairs({on_subnet(0, 1), on_subnet(0, 2)}, {on_subnet(0, 3), on_subnet(0, 4), on_subnet(0, 5)}),
            (Pairs{{0, 0}, {1, 1}}));
}

TEST(PairRails, WithinSubnets) {
  EXPECT_EQ(pairs({on_subnet(1, 1), on_subnet(2, 2)}, {on_subnet(2, 3), on_subnet(1, 4)}), (Pairs{{0, 1}, {1, 0}}));
  EXPECT_EQ(pairs({on_subnet(1, 1), on_subnet(2, 2)}, {on_subnet(2, 3), on_subnet(3, 4)}), (Pairs{{1, 0}}));
}

TEST(PairRails, AcrossSubnetsWhereNoneIsShared) {
  EXPECT_EQ(pairs({on_subnet(1, 1)}, {on_subnet(2, 2)}), (Pairs{{0, 0}}));
  EXPECT_TRUE(needs_global_route(on_subnet(1, 1), on_subnet(2, 2)));
  EXPECT_FALSE(needs_global_route(on_subnet(1, 1), on_subnet(1, 2)));
  EXPECT_TRUE(needs_global_route(on_ethernet(ipv4_gid(1)), on_ethernet(ipv4_gid(2))));
}

TEST(PairRails, NeverUnequalKinds) {
  const std::vector<PortAddress> here{on_subnet(0, 1)};
  const std::vector<PortAddress> there{on_ethernet(ipv4_gid(1))};
  EXPECT_TRUE(pair_rails(here, there).empty());
  const std::string why = why_no_way(here, there);
  EXPECT_NE(why.find("ib1/IB"), std::string::npos) << why;
  EXPECT_NE(why.find("eth/RoCE v2"), std::string::npos) << why;
  EXPECT_TRUE(pairs({on_ethernet(ipv4_gid(1))}, {on_ethernet(ipv4_gid(2), GidKind::roce_v1)}).empty());
  EXPECT_TRUE(pairs({on_ethernet(ipv4_gid(1))}, {on_ethernet(global_gid(2))}).empty());
  EXPECT_EQ(pairs({on_subnet(0, 1), on_ethernet(ipv4_gid(1))}, {on_ethernet(ipv4_gid(2))}), (Pairs{{1, 0}}));
}

}  // namespace softib::coll::verbs
