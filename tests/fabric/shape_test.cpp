// Tiers, sums, oddities and drawings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/topo/draw.h"
#include "fabric/topo/flow.h"
#include "fabric/topo/generate.h"
#include "fabric/topo/import.h"
#include "fabric/topo/shape.h"
#include "files.h"

namespace softib::fabric::topo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Fabric generated(const Topology& topology) { return *complete(*generate(topology)); }

TEST(Flow, MostThatPasses) {
  FlowNetwork network(6);
  network.add_link(0, 1, 10);
  network.add_link(0, 2, 10);
  network.add_link(1, 2, 2);
  network.add_link(1, 3, 4);
  network.add_link(1, 4, 8);
  network.add_link(2, 4, 7);
  network.add_link(3, 5, 10);
  network.add_link(4, 5, 10);
  network.add_link(4, 3, 6);
  EXPECT_EQ(network.most_flow(0, 5), 19U);
}

TEST(Flow, NothingWhereNoWayLeads) {
  FlowNetwork network(3);
  network.add_link(0, 1, 10);
  EXPECT_EQ(network.most_flow(0, 2), 0U);
}

TEST(Shapes, FullFatTree) {
  Shape shape = shape_of(generated(Superpod{Generation::hdr, 7}));
  EXPECT_EQ(shape.servers, 140U);
  EXPECT_EQ(shape.hcas, 1120U);
  EXPECT_EQ(shape.subnets, 1U);
  ASSERT_EQ(shape.tiers.size(), 3U);
  EXPECT_EQ(shape.tiers[0].switches, 56U);
  EXPECT_EQ(shape.tiers[1].switches, 80U);
  EXPECT_EQ(shape.tiers[2].switches, 28U);
  for (u32 t = 0; t < 3; ++t) {
    EXPECT_EQ(shape.tiers[t].cables_down, 1120U);
    EXPECT_EQ(shape.tiers[t].cables_up, t < 2 ? 1120U : 0U);
    EXPECT_EQ(shape.tiers[t].cables_across, 0U);
  }
  EXPECT_EQ(shape.halves_mbps, 560U * 200'000);
  EXPECT_EQ(shape.halves_most_mbps, shape.halves_mbps);
}

TEST(Shapes, OversubscribedTree) {
  // Two leaves' worth of hosts on each side; each leaf has a third of its bandwidth upwards.
  Shape shape = shape_of(generated(FatTree{.hosts = 96, .radix = 32, .down = 3, .up = 1}));
  EXPECT_EQ(shape.tiers[0].mbps_down, 3 * shape.tiers[0].mbps_up);
  EXPECT_EQ(shape.halves_mbps * 3, shape.halves_most_mbps);
}

TEST(Shapes, AggregationNodesDoNotMakeLeaves) {
  auto imported = import_ibnetdiscover(test::recorded(SOFTIB_FABRIC_DATA, "traps.ibnetdiscover"), "dump");
  Shape shape = shape_of(imported->fabric);
  EXPECT_EQ(shape.servers, 4U);
  EXPECT_EQ(shape.aggregation_nodes, 1U);
  ASSERT_EQ(shape.tiers.size(), 2U);
  EXPECT_EQ(shape.tiers[0].cables_down, 4U);
}

TEST(Shapes, TiersOfADragonfly) {
  Shape shape = shape_of(generated(Dragonfly{.groups = 9, .routers = 4, .hosts = 2, .global_links = 2}));
  ASSERT_EQ(shape.tiers.size(), 1U);
  EXPECT_EQ(shape.tiers[0].cables_across, 9U * 6 + 36);
}

TEST(Oddities, AGeneratedFabricHasNone) {
  EXPECT_THAT(oddities(generated(Superpod{Generation::h100, 3})), ElementsAre());
  EXPECT_THAT(oddities(generated(FatTree{.hosts = 128, .radix = 16, .tiers = 3})), ElementsAre());
}

TEST(Oddities, AreSaid) {
  Fabric fabric = *generate(FatTree{.hosts = 16, .radix = 8});
  fabric.cables.pop_back();                    // an uplink of the last leaf
  fabric.cables.erase(fabric.cables.begin());  // host0's
  fabric.cables[3].speed = Speed::edr;
  fabric.switches.push_back({.name = "lonely"});
  EXPECT_THAT(oddities(*complete(fabric)),
              ElementsAre("HCA ports without a cable: host0/mlx5_0/1", "switches that reach no host: lonely",
                          "links below what both ends can do: host4/mlx5_0/1 - leaf1/1 (4xEDR)",
                          "switches with fewer uplinks than the others of their tier: leaf3 (3, not 4)"));
}

TEST(Drawings, BundlesAndTiers) {
  Fabric fabric = *generate(FatTree{.hosts = 8, .radix = 8});
  fabric.cables.back().speed = Speed::edr;
  std::string dot = to_dot(*complete(fabric), DrawHosts::each);
  EXPECT_THAT(dot, HasSubstr("{ rank=same; \"spine0\"; }\n  { rank=same; \"leaf0\"; \"leaf1\"; }\n"));
  EXPECT_THAT(dot, HasSubstr("\"spine0\" -- \"leaf0\" [label=\"4\""));
  EXPECT_THAT(dot, HasSubstr("\"spine0\" -- \"leaf1\" [label=\"4 mixed\""));
  EXPECT_THAT(dot, HasSubstr("\"leaf0\" -- \"host3\" [label=\"\""));
  std::string counted = to_dot(*complete(fabric), DrawHosts::count);
  EXPECT_THAT(counted, HasSubstr("4 hosts"));
  EXPECT_THAT(counted, Not(HasSubstr("host3")));
}

TEST(Drawings, LinksOnOneHeightDoNotBendTheTiers) {
  std::string dot =
      to_dot(generated(Dragonfly{.groups = 2, .routers = 2, .hosts = 1, .global_links = 1}), DrawHosts::each);
  EXPECT_THAT(dot, HasSubstr("\"g0-r0\" -- \"g0-r1\" [label=\"\", penwidth=1.0, constraint=false]"));
}

}  // namespace
}  // namespace softib::fabric::topo
