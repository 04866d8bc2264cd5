#include "aggregation/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace softib::aggregation {

namespace {

using testing::HasSubstr;

// LIDs: switches from 1, their nodes 1000 later, hosts from 5000 (switch * 100 + number).
class Subnet {
 public:
  void add_switch(u16 lid, const std::string& name, bool node = true) {
    topology.add_switch(lid, name);
    if (!node) return;
    nodes[lid] = {static_cast<u16>(lid + 1000), 0, {64, 10}};
    topology.add_cable(static_cast<u16>(lid + 1000), lid);
  }
  u16 add_host(u16 sw) {
    const auto lid = static_cast<u16>(5000 + sw * 100 + ++hosts_[sw]);
    topology.add_cable(lid, sw);
    return lid;
  }
  std::vector<u16> add_hosts(const std::vector<u16>& switches, u32 each) {
    std::vector<u16> all;
    for (const u16 sw : switches)
      for (u32 i = 0; i < each; ++i) all.push_back(add_host(sw));
    return all;
  }

  Topology topology;
  std::map<u16, Place> nodes;

 private:
  std::map<u16, u16> hosts_;
};

// Leaves 1 to 4, spines 11 and 12.
Subnet two_tiers() {
  Subnet subnet;
  for (u16 leaf = 1; leaf <= 4; ++leaf) subnet.add_switch(leaf, "leaf" + std::to_string(leaf - 1));
  for (u16 spine = 11; spine <= 12; ++spine) {
    subnet.add_switch(spine, "spine" + std::to_string(spine - 11));
    for (u16 leaf = 1; leaf <= 4; ++leaf) subnet.topology.add_cable(leaf, spine);
  }
  return subnet;
}

// Three pods of two leaves and two middle switches each, four cores: core c reaches middle c / 2 of each pod.
Subnet three_tiers() {
  Subnet subnet;
  for (u16 core = 0; core < 4; ++core) subnet.add_switch(static_cast<u16>(90 + core), "core" + std::to_string(core));
  for (u16 pod = 0; pod < 3; ++pod) {
    const auto base = static_cast<u16>(10 * (pod + 1));
    for (u16 i = 0; i < 2; ++i) {
      subnet.add_switch(static_cast<u16>(base + i), "leaf" + std::to_string(pod) + std::to_string(i));
      subnet.add_switch(static_cast<u16>(base + 5 + i), "middle" + std::to_string(pod) + std::to_string(i));
    }
    for (u16 middle = 0; middle < 2; ++middle) {
      for (u16 leaf = 0; leaf < 2; ++leaf)
        subnet.topology.add_cable(static_cast<u16>(base + leaf), static_cast<u16>(base + 5 + middle));
      for (u16 core = 0; core < 2; ++core)
        subnet.topology.add_cable(static_cast<u16>(base + 5 + middle), static_cast<u16>(90 + 2 * middle + core));
    }
  }
  return subnet;
}

// Each member once, each vertex but the last with a parent behind it that knows it, nobody's node twice.
void check(const Tree& tree, std::size_t members) {
  std::set<u32> seen;
  std::set<u16> nodes;
  for (u32 i = 0; i < tree.vertices.size(); ++i) {
    const Tree::Vertex& vertex = tree.vertices[i];
    EXPECT_TRUE(nodes.insert(vertex.node).second);
    for (const u32 member : vertex.members) EXPECT_TRUE(seen.insert(member).second);
    for (const u32 child : vertex.children) EXPECT_EQ(tree.vertices[child].parent, i);
    EXPECT_EQ(vertex.parent.has_value(), i + 1 != tree.vertices.size());
    EXPECT_GT(vertex.parent.value_or(i + 1), i);
    EXPECT_GT(vertex.members.size() + vertex.children.size(), 0U);
  }
  EXPECT_EQ(seen.size(), members);
}

Tree plan(const Subnet& subnet, const std::vector<u16>& members) {
  const TreeAnswer answer = plan_tree(subnet.topology, subnet.nodes, members);
  EXPECT_TRUE(answer.tree) << answer.why_not;
  if (!answer.tree) return {};
  check(*answer.tree, members.size());
  return *answer.tree;
}

std::string refusal(const Subnet& subnet, const std::vector<u16>& members) {
  const TreeAnswer answer = plan_tree(subnet.topology, subnet.nodes, members);
  EXPECT_FALSE(answer.tree);
  return answer.why_not;
}

TEST(TreePlan, OneSwitchIsATreeOfOneNode) {
  Subnet subnet;
  subnet.add_switch(1, "sw0");
  const auto members = subnet.add_hosts({1}, 3);
  const Tree tree = plan(subnet, members);
  ASSERT_EQ(tree.vertices.size(), 1U);
  EXPECT_EQ(tree.root().node, 1001);
  EXPECT_EQ(text_of(tree, subnet.topology), "sw0 <- 3 hosts");
}

TEST(TreePlan, OfTwoTiersTheRootIsASpine) {
  Subnet subnet = two_tiers();
  const auto members = subnet.add_hosts({1, 2, 3, 4}, 4);
  const Tree tree = plan(subnet, members);
  ASSERT_EQ(tree.vertices.size(), 5U);
  EXPECT_EQ(tree.root().switch_lid, 11);
  EXPECT_EQ(text_of(tree, subnet.topology),
            "spine0 <- leaf0, leaf1, leaf2, leaf3; leaf3 <- 4 hosts; leaf2 <- 4 hosts; leaf1 <- 4 hosts; "
            "leaf0 <- 4 hosts");
}

TEST(TreePlan, OfOneLeafTheLeafIsTheRoot) {
  Subnet subnet = two_tiers();
  const auto members = subnet.add_hosts({3}, 2);
  EXPECT_EQ(plan(subnet, members).root().switch_lid, 3);
}

TEST(TreePlan, JobsAreSpreadOverSpines) {
  Subnet subnet = two_tiers();
  const auto members = subnet.add_hosts({1, 2}, 2);
  subnet.nodes[11].jobs = 1;
  EXPECT_EQ(plan(subnet, members).root().switch_lid, 12);
}

TEST(TreePlan, OfThreeTiersBranchesMeetAsLowAsTheyCan) {
  Subnet subnet = three_tiers();
  const auto pod = subnet.add_hosts({10, 11}, 2);
  EXPECT_EQ(plan(subnet, pod).vertices.size(), 3U);
  auto members = subnet.add_hosts({10, 11, 20, 21, 30}, 1);
  const Tree tree = plan(subnet, members);
  // Five leaves, the middle switches of the two pods with two of them, a core. The leaf alone in its pod goes past
  // its middle switch.
  ASSERT_EQ(tree.vertices.size(), 8U);
  EXPECT_GE(tree.root().switch_lid, 90);
  EXPECT_EQ(tree.root().children.size(), 3U);
}

TEST(TreePlan, AnyMembersGetATree) {
  std::mt19937_64 random(5);
  for (u32 round = 0; round < 200; ++round) {
    Subnet subnet = round % 2 == 0 ? two_tiers() : three_tiers();
    std::vector<u16> switches;
    for (const auto& [lid, sw] : subnet.topology.switches)
      if (sw.name.starts_with("leaf") || random() % 4 == 0) switches.push_back(lid);
    std::vector<u16> members;
    for (u64 i = 1 + random() % 20; i > 0; --i)
      members.push_back(subnet.add_host(switches[random() % switches.size()]));
    for (auto& [sw, node] : subnet.nodes) node.jobs = static_cast<u32>(random() % 10);
    static_cast<void>(plan(subnet, members));
  }
}

TEST(TreePlan, WhyThereIsNone) {
  Subnet subnet = two_tiers();
  auto members = subnet.add_hosts({1, 2}, 1);
  EXPECT_THAT(refusal(subnet, {members[0], 77}), HasSubstr("the port with LID 77 hangs on no switch"));

  Subnet bare = subnet;
  bare.nodes.erase(2);
  EXPECT_THAT(refusal(bare, members), HasSubstr("switch leaf1, on which the port with LID 5201 hangs, has no"));

  Subnet apart = subnet;
  apart.add_switch(50, "alone");
  EXPECT_THAT(refusal(apart, {members[0], apart.add_host(50)}), HasSubstr("no aggregation node reaches the switches"));

  Subnet busy = subnet;
  busy.nodes[1].jobs = 10;
  EXPECT_THAT(refusal(busy, members), HasSubstr("the aggregation node of leaf0 has its 10 jobs already"));

  Subnet narrow = subnet;
  narrow.nodes[1].limits.most_children = 2;
  const auto many = narrow.add_hosts({1}, 3);
  EXPECT_THAT(refusal(narrow, many), HasSubstr("would have 3 children, of 2 that it can have"));

  EXPECT_THAT(refusal(subnet, {}), HasSubstr("there are no members"));
}

TEST(TreePlan, ARootWithoutRoomIsPassedOver) {
  Subnet subnet = two_tiers();
  const auto members = subnet.add_hosts({1, 2}, 1);
  subnet.nodes[11].jobs = 10;
  EXPECT_EQ(plan(subnet, members).root().switch_lid, 12);
  subnet.nodes.erase(12);
  EXPECT_THAT(refusal(subnet, members), HasSubstr("aggregation node of spine0 has its 10 jobs already"));
}

}  // namespace

}  // namespace softib::aggregation
