// Aggregation nodes that a fabric file asks for.
#include "fabric/aggregation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/topo/generate.h"

namespace softib::fabric {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Fabric fabric_of(std::string_view text) {
  auto fabric = parse(text, "f.yaml");
  EXPECT_TRUE(fabric) << (fabric ? "" : fabric.error().text);
  return fabric.value_or(Fabric{});
}

std::string refusal_of(std::string_view text) {
  auto fabric = parse(text, "f.yaml");
  return fabric ? "" : fabric.error().text;
}

// "HOST/HCA SWITCH/PORT" of each aggregation node.
std::vector<std::string> nodes_in(const Fabric& fabric) {
  std::vector<std::string> found;
  for (const Cable& cable : fabric.cables)
    if (cable.a.kind == EndKind::hca && fabric.hosts[cable.a.node].kind == HostKind::aggregation)
      found.push_back(to_string(fabric, cable.a) + " " + to_string(fabric, cable.b));
  return found;
}

constexpr std::string_view two_tiers_with_nodes = R"(
fabric: tree
aggregation: true
hosts: [a, b]
switches: [{name: leaf.0, ports: 8, speed: NDR}, {name: leaf1, ports: 8}, {name: spine, ports: 4}]
cables: [[a/mlx5_0, leaf.0/1], [b/mlx5_0, leaf1/1], [leaf.0/8, spine/1], [leaf1/8, spine/2]]
)";

TEST(AggregationNodes, EachSwitchHasOne) {
  const Fabric fabric = fabric_of(two_tiers_with_nodes);
  EXPECT_THAT(nodes_in(fabric), ElementsAre("aggregation/leaf-0-an/1 leaf.0/9", "aggregation/leaf1-an/1 leaf1/9",
                                            "aggregation/spine-an/1 spine/5"));
  ASSERT_EQ(fabric.hosts.size(), 3U);
  EXPECT_EQ(fabric.hosts[2].kind, HostKind::aggregation);
  const Hca& node = fabric.hosts[2].hcas[0];
  EXPECT_EQ(node_description(fabric.hosts[2], node), "Mellanox Technologies Aggregation Node");
  EXPECT_EQ(node.ports[0].speed, Speed::ndr);
  EXPECT_EQ(node.ports[0].link_speed, Speed::ndr);
  EXPECT_EQ(make_of(node), (Make{0x2c9, 0xcf09}));
  EXPECT_THAT(aggregation_hosts(fabric), ElementsAre(2U));
}

TEST(AggregationNodes, ComeBackFromTheCompleteDescription) {
  const Fabric fabric = fabric_of(two_tiers_with_nodes);
  EXPECT_EQ(fabric_of(to_yaml(fabric)), fabric);
}

// GUIDs, LIDs and addresses of the others are what they are without them.
TEST(AggregationNodes, ChangeNothingElse) {
  const Fabric with = fabric_of(two_tiers_with_nodes);
  std::string text(two_tiers_with_nodes);
  text.erase(text.find("aggregation: true\n"), 18);
  const Fabric without = fabric_of(text);
  EXPECT_THAT(nodes_in(without), ElementsAre());
  EXPECT_THAT(aggregation_hosts(without), ElementsAre());
  for (u32 host = 0; host < 2; ++host) EXPECT_EQ(with.hosts[host], without.hosts[host]);
  for (u32 sw = 0; sw < 3; ++sw) EXPECT_EQ(with.switches[sw].lid, without.switches[sw].lid);
}

TEST(AggregationNodes, OfSingleSwitches) {
  std::string text(two_tiers_with_nodes);
  text.replace(text.find("ports: 4"), 8, "ports: 4, aggregation: true");
  text.erase(text.find("aggregation: true\n"), 18);
  const Fabric fabric = fabric_of(text);
  EXPECT_THAT(nodes_in(fabric), ElementsAre("aggregation/spine-an/1 spine/5"));
  EXPECT_EQ(fabric_of(to_yaml(fabric)), fabric);
}

TEST(AggregationNodes, OfTheSwitchThatNobodyNamed) {
  EXPECT_THAT(nodes_in(fabric_of("{hosts: 2, aggregation: true}")), ElementsAre("aggregation/sw0-an/1 sw0/41"));
}

TEST(AggregationNodes, ThoseThatAreThereAreTaken) {
  constexpr std::string_view file =
      "hosts: [a, {name: x-an, kind: aggregation}]\nswitches: [{name: x, ports: 4}, {name: y, ports: 4}]\n"
      "cables: [[a/mlx5_0, x/1], [x/2, y/2], [x-an/mlx5_0, x/3]]\n";
  EXPECT_THAT(aggregation_hosts(fabric_of(file)), ElementsAre()) << "of an imported fabric they only answer";
  const Fabric fabric = fabric_of(std::string(file) + "aggregation: true\n");
  EXPECT_EQ(fabric.switches[0].ports, 4U);
  EXPECT_THAT(nodes_in(fabric), ElementsAre("x-an/mlx5_0/1 x/3", "aggregation/y-an/1 y/5"));
  EXPECT_THAT(aggregation_hosts(fabric), ElementsAre(1U, 2U));
}

TEST(AggregationNodes, CablesMayNameTheSwitchFirst) {
  const Fabric fabric =
      fabric_of("aggregation: true\nhosts: [a, {name: an, kind: aggregation}]\ncables: [[sw0/7, an/mlx5_0]]\n");
  EXPECT_EQ(fabric.hosts.size(), 2U);
  EXPECT_THAT(aggregation_hosts(fabric), ElementsAre(1U));
}

TEST(AggregationNodes, TheirNamesAreNobodyElses) {
  const Fabric fabric = fabric_of(
      "aggregation: true\nhosts: [aggregation]\nswitches: [s.1, s-1, aggregation2]\n"
      "cables: [[aggregation/mlx5_0, s.1/1]]\n");
  EXPECT_THAT(nodes_in(fabric), ElementsAre("aggregation3/s-1-an/1 s.1/41", "aggregation3/an1/1 s-1/41",
                                            "aggregation3/aggregation2-an/1 aggregation2/41"));
}

TEST(AggregationNodes, AHostHoldsAsManyAsItCan) {
  const Fabric fabric =
      fabric_of("{aggregation: true, topology: {kind: dragonfly, groups: 8, routers: 5, hosts: 1, global_links: 2}}");
  ASSERT_EQ(fabric.hosts.size(), 42U);
  EXPECT_EQ(fabric.hosts[40].hcas.size(), max_hcas_per_host);
  EXPECT_EQ(fabric.hosts[41].name, "aggregation2");
  EXPECT_EQ(fabric.hosts[41].hcas.size(), 8U);
  EXPECT_THAT(aggregation_hosts(fabric), ElementsAre(40U, 41U));
}

TEST(AggregationNodes, TakeTheLastFreePortOfTheLargestSwitch) {
  EXPECT_THAT(nodes_in(fabric_of("{aggregation: true, hosts: 250, switches: [{name: s, ports: 254}]}")),
              ElementsAre("aggregation/s-an/1 s/254"));
  EXPECT_THAT(refusal_of("aggregation: true\nhosts: 254\nswitches:\n  - {name: s, ports: 254}\n"),
              HasSubstr("f.yaml:4: switch 's' has no port left for its aggregation node"));
}

TEST(AggregationNodes, AreForInfiniBand) {
  EXPECT_THAT(refusal_of("{hosts: 2, aggregation: true, link_layer: ethernet}"), HasSubstr("f.yaml:1: "));
  EXPECT_THAT(refusal_of("{hosts: 2, aggregation: yes please}"), HasSubstr("f.yaml:1: "));
}

}  // namespace
}  // namespace softib::fabric
