// Generated clusters against the published designs, and against what makes a fat tree or a dragonfly one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <map>
#include <set>

#include "fabric/topo/clos.h"
#include "fabric/topo/generate.h"

namespace softib::fabric::topo {
namespace {

using testing::HasSubstr;

Fabric made(const Topology& topology) {
  auto fabric = generate(topology);
  if (!fabric) throw std::runtime_error(fabric.error().text);
  auto completed = complete(*fabric);
  if (!completed) throw std::runtime_error(completed.error().text);
  return *completed;
}

enum class Tier : u8 { host, leaf, spine, core };

Tier tier_of(const Fabric& fabric, const CableEnd& end) {
  if (end.kind == EndKind::hca) return Tier::host;
  const std::string& name = fabric.switches[end.node].name;
  if (name.find("leaf") != std::string::npos) return Tier::leaf;
  return name.find("spine") != std::string::npos ? Tier::spine : Tier::core;
}

std::map<Tier, u32> switches_by_tier(const Fabric& fabric) {
  std::map<Tier, u32> counts;
  for (u32 s = 0; s < fabric.switches.size(); ++s) ++counts[tier_of(fabric, {EndKind::sw, s, 0, 1})];
  return counts;
}

std::map<std::pair<Tier, Tier>, u32> cables_by_tier(const Fabric& fabric) {
  std::map<std::pair<Tier, Tier>, u32> counts;
  for (const Cable& cable : fabric.cables) {
    Tier a = tier_of(fabric, cable.a);
    Tier b = tier_of(fabric, cable.b);
    ++counts[{std::min(a, b), std::max(a, b)}];
  }
  return counts;
}

// Number of links of each pair of connected switches.
std::map<std::pair<u32, u32>, u32> bundles(const Fabric& fabric) {
  std::map<std::pair<u32, u32>, u32> result;
  for (const Cable& cable : fabric.cables)
    if (cable.a.kind == EndKind::sw && cable.b.kind == EndKind::sw)
      ++result[{std::min(cable.a.node, cable.b.node), std::max(cable.a.node, cable.b.node)}];
  return result;
}

std::vector<u32> cables_of_switches(const Fabric& fabric) {
  std::vector<u32> counts(fabric.switches.size());
  for (const Cable& cable : fabric.cables)
    for (const CableEnd& end : {cable.a, cable.b})
      if (end.kind == EndKind::sw) ++counts[end.node];
  return counts;
}

bool one_subnet(const Fabric& fabric) {
  for (const Host& host : fabric.hosts)
    for (const Hca& hca : host.hcas)
      for (const Port& port : hca.ports)
        if (!port.cabled || port.subnet != 1) return false;
  return true;
}

// -- published designs

struct Published {
  Generation generation;
  u32 units;
  u32 hosts;
  u32 gpus;
  u32 leaves;
  u32 spines;
  u32 cores;
  u32 host_cables;
  u32 leaf_spine_cables;
  u32 spine_core_cables;
};

void PrintTo(const Published& row, std::ostream* out) { *out << row_of(row.generation).name << ' ' << row.units; }

const Published published[] = {
    {Generation::h100, 1, 31, 248, 8, 4, 0, 248, 256, 0},
    {Generation::h100, 2, 63, 504, 16, 8, 0, 504, 512, 0},
    {Generation::h100, 3, 95, 760, 24, 16, 0, 760, 768, 0},
    {Generation::h100, 4, 127, 1016, 32, 16, 0, 1016, 1024, 0},
    {Generation::b200, 2, 64, 512, 16, 8, 0, 512, 512, 0},
    {Generation::b200, 4, 128, 1024, 32, 16, 0, 1024, 1024, 0},
    {Generation::b200, 8, 256, 2048, 64, 32, 0, 2048, 2048, 0},
    {Generation::b200, 16, 512, 4096, 128, 128, 64, 4096, 4096, 4096},
    {Generation::b200, 32, 1024, 8192, 256, 256, 128, 8192, 8192, 8192},
    {Generation::b200, 64, 2048, 16384, 512, 512, 256, 16384, 16384, 16384},
    {Generation::b300, 1, 72, 576, 8, 4, 0, 576, 576, 0},
    {Generation::b300, 2, 144, 1152, 16, 8, 0, 1152, 1152, 0},
    {Generation::b300, 4, 288, 2304, 32, 18, 0, 2304, 2304, 0},
    {Generation::b300, 8, 576, 4608, 64, 36, 0, 4608, 4608, 0},
    {Generation::b300, 18, 1296, 10368, 144, 72, 0, 10368, 10368, 0},
    {Generation::hdr, 5, 100, 800, 40, 20, 0, 800, 800, 0},
    {Generation::hdr, 7, 140, 1120, 56, 80, 28, 1120, 1120, 1120},
};

class PublishedDesigns : public testing::TestWithParam<Published> {
 protected:
  const Fabric fabric = made(Superpod{GetParam().generation, GetParam().units});
};

TEST_P(PublishedDesigns, Counts) {
  const Published& row = GetParam();
  EXPECT_EQ(fabric.hosts.size(), row.hosts);
  size_t gpus = 0;
  for (const Host& host : fabric.hosts) gpus += host.hcas.size();
  EXPECT_EQ(gpus, row.gpus);
  auto switches = switches_by_tier(fabric);
  EXPECT_EQ(switches[Tier::leaf], row.leaves);
  EXPECT_EQ(switches[Tier::spine], row.spines);
  EXPECT_EQ(switches[Tier::core], row.cores);
  auto cables = cables_by_tier(fabric);
  EXPECT_EQ((cables[{Tier::host, Tier::leaf}]), row.host_cables);
  EXPECT_EQ((cables[{Tier::leaf, Tier::spine}]), row.leaf_spine_cables);
  EXPECT_EQ((cables[{Tier::spine, Tier::core}]), row.spine_core_cables);
  EXPECT_EQ(fabric.cables.size(), row.host_cables + row.leaf_spine_cables + row.spine_core_cables);
}

TEST_P(PublishedDesigns, HcaNumberIsRailIsLeafNumber) {
  u32 seen = 0;
  for (const Cable& cable : fabric.cables) {
    if (cable.a.kind != EndKind::hca) continue;
    ++seen;
    const Host& host = fabric.hosts[cable.a.node];
    std::string unit = host.name.substr(0, host.name.find('-'));
    EXPECT_EQ(fabric.switches[cable.b.node].name, unit + "-leaf-rail" + std::to_string(cable.a.hca)) << host.name;
    EXPECT_EQ(host.hcas[cable.a.hca].name, "mlx5_" + std::to_string(cable.a.hca));
  }
  EXPECT_EQ(seen, GetParam().gpus);
}

TEST_P(PublishedDesigns, BundlesAreEqualAndSpinesBalanced) {
  std::map<std::pair<Tier, Tier>, std::set<u32>> sizes;
  for (const auto& [ends, count] : bundles(fabric))
    sizes[{tier_of(fabric, {EndKind::sw, ends.first, 0, 1}), tier_of(fabric, {EndKind::sw, ends.second, 0, 1})}].insert(
        count);
  for (const auto& [tiers, counts] : sizes) EXPECT_EQ(counts.size(), 1U);
  std::map<Tier, std::set<u32>> used;
  std::vector<u32> cables = cables_of_switches(fabric);
  for (u32 s = 0; s < fabric.switches.size(); ++s) {
    used[tier_of(fabric, {EndKind::sw, s, 0, 1})].insert(cables[s]);
    EXPECT_LE(cables[s], row_of(GetParam().generation).radix);
  }
  EXPECT_EQ(used[Tier::spine].size(), 1U) << "every spine has the same number of cables";
  if (GetParam().cores) {
    EXPECT_EQ(used[Tier::core], std::set<u32>{row_of(GetParam().generation).radix});
  }
}

TEST_P(PublishedDesigns, IsOneSubnetOfTheGenerationsSpeed) {
  EXPECT_TRUE(one_subnet(fabric));
  for (const Cable& cable : fabric.cables)
    ASSERT_EQ(link_rate(fabric, cable).speed, row_of(GetParam().generation).speed);
}

INSTANTIATE_TEST_SUITE_P(Table, PublishedDesigns, testing::ValuesIn(published), [](const auto& test) {
  return std::string(row_of(test.param.generation).name) + "_" + std::to_string(test.param.units);
});

TEST(Superpod, Names) {
  Fabric fabric = made(Superpod{Generation::hdr, 7});
  EXPECT_EQ(fabric.hosts[0].name, "su0-host00");
  EXPECT_EQ(fabric.hosts[139].name, "su6-host19");
  EXPECT_EQ(fabric.switches[9].name, "su1-leaf-rail1");
  EXPECT_EQ(fabric.switches[56].name, "rail0-spine00");
  EXPECT_EQ(fabric.switches[135].name, "rail7-spine09");
  EXPECT_EQ(fabric.switches[163].name, "core27");
  fabric = made(Superpod{Generation::b200, 64});
  EXPECT_EQ(fabric.switches[512 + 32].name, "rail0-pod1-spine00");
  EXPECT_EQ(fabric.hosts[0].name, "su00-host00");
}

TEST(Superpod, TheManagersPlaceStaysFree) {
  Fabric fabric = made(Superpod{Generation::h100, 1});
  EXPECT_EQ(fabric.hosts.back().name, "su0-host30");
  for (const Cable& cable : fabric.cables)
    for (const CableEnd& end : {cable.a, cable.b})
      if (end.kind == EndKind::sw && end.node < 8) {
        EXPECT_NE(end.port, 32U);
      }
}

TEST(Superpod, EveryNumberOfUnitsThatIsAllowedWorks) {
  for (const std::string_view& name : generation_names()) {
    auto generation = static_cast<Generation>(&name - generation_names().data());
    for (u32 units = 1; units <= row_of(generation).most_units; ++units) {
      auto fabric = generate(Superpod{generation, units});
      ASSERT_TRUE(fabric) << name << ' ' << units << ": " << fabric.error().text;
    }
  }
}

TEST(Superpod, RefusesOtherNumbersOfUnits) {
  EXPECT_EQ(generate(Superpod{Generation::b300, 19}).error().text, "b300 has 1 to 18 scalable units, not 19");
  EXPECT_FALSE(generate(Superpod{Generation::h100, 0}));
}

// -- fat trees

TEST(FatTrees, TwoTiers) {
  Fabric fabric = made(FatTree{.hosts = 324, .radix = 36, .speed = Speed::qdr});
  auto switches = switches_by_tier(fabric);
  EXPECT_EQ(switches[Tier::leaf], 18U);
  EXPECT_EQ(switches[Tier::spine], 9U);
  for (u32 used : cables_of_switches(fabric)) EXPECT_EQ(used, 36U);
  EXPECT_EQ(fabric.switches[17].name, "leaf17");
  EXPECT_EQ(fabric.switches[18].name, "spine0");
  EXPECT_EQ(fabric.hosts[323].hcas[0].ports[0].link_speed, Speed::qdr);
}

TEST(FatTrees, ThreeTiersFull) {
  Fabric fabric = made(FatTree{.hosts = 1024, .radix = 16, .tiers = 3});
  auto switches = switches_by_tier(fabric);
  EXPECT_EQ(switches[Tier::leaf], 128U);
  EXPECT_EQ(switches[Tier::spine], 128U);
  EXPECT_EQ(switches[Tier::core], 64U);
  for (u32 used : cables_of_switches(fabric)) EXPECT_EQ(used, 16U);
  EXPECT_EQ(fabric.switches[8].name, "pod01-leaf0");
  EXPECT_TRUE(one_subnet(fabric));
}

TEST(FatTrees, Oversubscription) {
  Fabric fabric = made(FatTree{.hosts = 96, .radix = 32, .down = 3, .up = 1});
  auto switches = switches_by_tier(fabric);
  auto cables = cables_by_tier(fabric);
  EXPECT_EQ(switches[Tier::leaf], 4U);
  EXPECT_EQ((cables[{Tier::leaf, Tier::spine}]), 32U);
}

TEST(FatTrees, Refusals) {
  EXPECT_THAT(generate(FatTree{.hosts = 801, .radix = 40}).error().text, HasSubstr("use 3 tiers or a larger radix"));
  EXPECT_THAT(generate(FatTree{.hosts = 16001, .radix = 40, .tiers = 3}).error().text, HasSubstr("larger radix"));
  EXPECT_THAT(generate(FatTree{.hosts = 8, .radix = 8, .down = 9}).error().text, HasSubstr("9:1"));
  EXPECT_THAT(generate(FatTree{.hosts = 0}).error().text, HasSubstr("0 hosts"));
  EXPECT_THAT(generate(FatTree{.hosts = 8, .tiers = 4}).error().text, HasSubstr("2 or 3 tiers"));
  EXPECT_THAT(generate(FatTree{.hosts = 32767, .hcas = 32}).error().text, HasSubstr("32767 HCAs"));
}

TEST(FatTrees, AlwaysComplete) {
  EXPECT_TRUE(rc::check([] {
    FatTree tree;
    tree.radix = *rc::gen::inRange(2U, 65U);
    tree.hosts = *rc::gen::inRange(1U, 300U);
    tree.hcas = *rc::gen::inRange(1U, 5U);
    tree.tiers = *rc::gen::inRange(2U, 4U);
    tree.down = *rc::gen::inRange(1U, 4U);
    auto fabric = generate(tree);
    if (!fabric) {
      RC_ASSERT(!fabric.error().text.empty());
      return;
    }
    auto completed = complete(*fabric);
    RC_ASSERT(completed);
    RC_ASSERT(one_subnet(*completed));
    RC_ASSERT(completed->hosts.size() == tree.hosts);
  }));
}

// -- dragonflies

TEST(Dragonflies, Balanced) {
  // a = 2p = 2h routers, as many groups as can be: every two groups have exactly one link.
  Fabric fabric = made(Dragonfly{.groups = 9, .routers = 4, .hosts = 2, .global_links = 2});
  EXPECT_EQ(fabric.hosts.size(), 72U);
  EXPECT_EQ(fabric.switches.size(), 36U);
  EXPECT_EQ(fabric.cables.size(), 72U + 9 * 6 + 36);
  for (u32 used : cables_of_switches(fabric)) EXPECT_EQ(used, 2U + 3 + 2);
  std::map<std::pair<u32, u32>, u32> between;
  for (const auto& [ends, count] : bundles(fabric)) between[{ends.first / 4, ends.second / 4}] += count;
  for (u32 a = 0; a < 9; ++a)
    for (u32 b = a; b < 9; ++b) EXPECT_EQ((between[{a, b}]), a == b ? 6U : 1U) << a << ' ' << b;
  EXPECT_EQ(fabric.switches[5].name, "g1-r1");
  EXPECT_EQ(fabric.hosts[11].name, "g1-r1-host1");
  EXPECT_TRUE(one_subnet(fabric));
}

TEST(Dragonflies, SpareGlobalLinksAreSharedOut) {
  Fabric fabric = made(Dragonfly{.groups = 3, .routers = 4, .hosts = 1, .global_links = 2, .hcas = 2});
  std::map<std::pair<u32, u32>, u32> between;
  for (const auto& [ends, count] : bundles(fabric)) between[{ends.first / 4, ends.second / 4}] += count;
  EXPECT_EQ((between[{0, 1}]), 4U);
  EXPECT_EQ((between[{0, 2}]), 4U);
  EXPECT_EQ((between[{1, 2}]), 4U);
}

TEST(Dragonflies, Refusals) {
  EXPECT_EQ(generate(Dragonfly{.groups = 10, .routers = 4, .hosts = 2, .global_links = 2}).error().text,
            "10 groups, but a group has 8 global links: at most 9 groups can be joined");
  EXPECT_THAT(generate(Dragonfly{.groups = 2, .routers = 200, .hosts = 60, .global_links = 1}).error().text,
              HasSubstr("254 ports, not 260"));
}

// -- size

// Generous, for slow and busy machines; a quadratic step would take minutes.
template <typename Work>
double seconds(Work work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Sizes, LargeOnesAreMadeQuickly) {
  auto pod = generate(Superpod{Generation::b200, 64});
  auto tree = generate(FatTree{.hosts = 10000, .radix = 40, .tiers = 3});
  ASSERT_TRUE(pod && tree);
  for (const auto& fabric : {*pod, *tree}) {
    double took = seconds([&] { EXPECT_TRUE(complete(fabric)); });
    EXPECT_LT(took, 10.0);
    RecordProperty("complete_ms", static_cast<int>(took * 1000));
  }
}

}  // namespace
}  // namespace softib::fabric::topo
