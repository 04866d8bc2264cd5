#include <rapidcheck.h>

#include <algorithm>

#include "world.h"

namespace softib::sm::test {
namespace {

Options with(Routing routing) {
  Options options;
  options.routing = routing;
  return options;
}

void expect_routed(World& world) {
  EXPECT_TRUE(world.manager(0).subnet_up()) << (world.log().empty() ? "" : world.log().back());
  expect_all_active(world);
  expect_all_reachable(world);
}

TEST(Routing, UpDownHasNoCreditLoopWhereMinHopHas) {
  for (const auto& fabric : {ring(5, 2), random_mesh(12, 14, 24, 7)}) {
    World shortest(fabric);
    shortest.manage(0, with(Routing::minhop));
    shortest.settle();
    expect_routed(shortest);
    EXPECT_TRUE(has_credit_loop(shortest));

    World safe(fabric);
    safe.manage(0, with(Routing::updn));
    safe.settle();
    expect_routed(safe);
    EXPECT_FALSE(has_credit_loop(safe));
  }
}

TEST(Routing, FatTree) {
  for (const TreeShape& shape : {TreeShape{4, 4, 4}, TreeShape{3, 2, 2, 3, 2}, TreeShape{2, 4, 2, 1, 0, 2}}) {
    World world(tree(shape));
    world.manage(0, with(Routing::ftree));
    world.settle();
    expect_routed(world);
    EXPECT_FALSE(has_credit_loop(world));
    EXPECT_FALSE(world.logged("no fat tree"));
  }
}

TEST(Routing, WhatIsNoFatTreeIsSaidAndRoutedUpDown) {
  World world(ring(4, 2));
  world.manage(0, with(Routing::ftree));
  world.settle();
  expect_routed(world);
  EXPECT_TRUE(world.logged("no fat tree"));
  EXPECT_TRUE(world.logged("up/down"));
  EXPECT_FALSE(has_credit_loop(world));
}

// From and to each host, and each other; roots have a way to each other with shortest paths only.
void expect_nodes_reachable(World& world, const fabric::Fabric& fabric, bool roots_too) {
  std::vector<net::PortRef> near, far;  // at switches with hosts, and hosts; at others
  std::set<u32> leaves;
  for (const fabric::Cable& cable : fabric.cables)
    if (cable.a.kind == fabric::EndKind::hca && fabric.hosts[cable.a.node].kind == fabric::HostKind::server)
      leaves.insert(cable.b.node);
  for (const fabric::Cable& cable : fabric.cables)
    if (cable.a.kind == fabric::EndKind::hca)
      (leaves.contains(cable.b.node) ? near : far).push_back({world.net().hca_node(cable.a.node, cable.a.hca), 1});
  EXPECT_EQ(far.size(), fabric.switches.size() - leaves.size());
  const auto loss = [&](net::PortRef from, net::PortRef to) {
    return world.net().walk(from, world.lid(to), 0, 0xffff).loss;
  };
  std::vector<net::PortRef> all = near;
  all.insert(all.end(), far.begin(), far.end());
  for (const net::PortRef from : near)
    for (const net::PortRef to : all) {
      EXPECT_EQ(loss(from, to), net::Loss::none) << from.node << " to " << to.node;
      EXPECT_EQ(loss(to, from), net::Loss::none) << to.node << " to " << from.node;
    }
  for (const net::PortRef from : far)
    for (const net::PortRef to : far) EXPECT_TRUE(!roots_too || loss(from, to) == net::Loss::none);
}

// The ports that packets leave switches by, from each host to each other.
std::vector<u32> ways_of_hosts(World& world, const fabric::Fabric& fabric) {
  std::vector<u32> ports;
  for (u32 from = 0; from < fabric.hosts.size(); ++from)
    for (u32 to = 0; to < fabric.hosts.size(); ++to) {
      const u16 lid = world.lid(world.port_of_host(to));
      for (const net::Hop& hop : world.net().walk(world.port_of_host(from), lid, 0, 0xffff).hops)
        ports.push_back(hop.out.port);
    }
  return ports;
}

// Where hosts are is what makes a leaf, whatever else is at spines and cores.
TEST(Routing, AggregationNodesMakeNoLeaves) {
  for (const Routing routing : {Routing::minhop, Routing::updn, Routing::ftree})
    for (const TreeShape& shape : {TreeShape{4, 4, 4}, TreeShape{3, 2, 2, 3, 2}}) {
      fabric::Fabric plain = tree(shape);
      fabric::Fabric reducing = plain;
      for (fabric::Switch& sw : reducing.switches) sw.aggregation = true;
      reducing = *fabric::complete(reducing);
      World with_nodes(reducing), without(plain);
      for (World* world : {&with_nodes, &without}) {
        world->manage(0, with(routing));
        world->settle();
      }
      EXPECT_TRUE(with_nodes.manager(0).subnet_up());
      expect_all_active(with_nodes);
      EXPECT_FALSE(with_nodes.logged("no fat tree"));
      expect_nodes_reachable(with_nodes, reducing, routing == Routing::minhop);
      EXPECT_EQ(routing != Routing::minhop && has_credit_loop(with_nodes), false);
      EXPECT_EQ(ways_of_hosts(with_nodes, plain), ways_of_hosts(without, plain));
    }
}

// How many of the paths from leaf 0 to the hosts of other leaves go by each port.
std::map<u8, u32> spread(World& world, u32 hosts_here) {
  std::map<u8, u32> uses;
  for (u32 to = hosts_here; to < world.hosts(); ++to) {
    const auto path = world.net().walk(world.port_of_host(0), world.lid(world.port_of_host(to)), 0, 0xffff);
    EXPECT_GE(path.hops.size(), 2U);
    ++uses[path.hops[1].out.port];
  }
  return uses;
}

TEST(Routing, PathsAreBalanced) {
  for (const Routing routing : {Routing::minhop, Routing::updn, Routing::ftree}) {
    World world(tree({5, 4, 4}));
    world.manage(0, with(routing));
    world.settle();
    const auto uses = spread(world, 4);
    ASSERT_EQ(uses.size(), 4U);
    for (const auto& [port, count] : uses) EXPECT_EQ(count, 4U) << "port " << int{port};
  }
}

TEST(Routing, RandomMeshesAreReachableAndUpDownIsSafe) {
  EXPECT_TRUE(rc::check([] {
    const auto switches = *rc::gen::inRange<u32>(1, 14);
    const auto extra = *rc::gen::inRange<u32>(0, 16);
    const auto hosts = *rc::gen::inRange<u32>(1, 20);
    const auto seed = *rc::gen::arbitrary<u32>();
    World world(random_mesh(switches, extra, hosts, seed));
    world.manage(0, with(*rc::gen::element(Routing::minhop, Routing::updn, Routing::ftree)));
    world.settle();
    RC_ASSERT(world.manager(0).subnet_up());
    for (u32 to = 1; to < hosts; ++to)
      for (u32 from = 0; from < hosts; ++from) {
        if (from == to) continue;
        const auto path = world.net().walk(world.port_of_host(from), world.lid(world.port_of_host(to)), 0, 0xffff);
        RC_ASSERT(path.loss == net::Loss::none);
      }
  }));
  EXPECT_TRUE(rc::check([] {
    World world(
        random_mesh(*rc::gen::inRange<u32>(2, 14), *rc::gen::inRange<u32>(0, 16), 16, *rc::gen::arbitrary<u32>()));
    world.manage(0, with(Routing::updn));
    world.settle();
    RC_ASSERT(!has_credit_loop(world));
  }));
}

TEST(Routing, SeveralLidsForAPortTakeDifferentWays) {
  World world(tree({3, 2, 4}));
  Options options;
  options.lmc = 2;
  world.manage(0, options);
  world.settle();
  expect_routed(world);
  const u16 base = world.lid(world.port_of_host(5));
  EXPECT_EQ(world.net().port(world.port_of_host(5)).lmc, 2);
  EXPECT_EQ(base % 4, 0);
  std::set<u8> ports;
  for (u16 i = 0; i < 4; ++i) {
    const auto path = world.net().walk(world.port_of_host(0), static_cast<u16>(base + i), 0, 0xffff);
    ASSERT_EQ(path.loss, net::Loss::none);
    ports.insert(path.hops[1].out.port);
  }
  EXPECT_EQ(ports.size(), 4U);
}

}  // namespace
}  // namespace softib::sm::test
