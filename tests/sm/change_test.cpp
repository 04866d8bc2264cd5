// What happens after the first sweep.
#include "world.h"

namespace softib::sm::test {
namespace {

TEST(Change, LidsAndTablesStayOverSweeps) {
  World world(tree({4, 3, 2}));
  SubnetManager& manager = world.manage(0);
  world.settle();
  const auto before = lids_by_guid(world);
  std::set<u16> distinct;
  for (const auto& [guid, lid] : before) distinct.insert(lid);
  EXPECT_EQ(distinct.size(), before.size());
  EXPECT_EQ(before.size(), 6U + 12U);

  const u64 first = world.smps_sent, tables = world.tables_sent;
  manager.sweep();
  world.run_for(0);
  EXPECT_EQ(lids_by_guid(world), before);
  EXPECT_TRUE(manager.subnet_up());
  EXPECT_EQ(world.tables_sent, tables);
  EXPECT_LT(world.smps_sent - first, first * 2 / 3) << "nothing had to be set again";
}

TEST(Change, AnotherManagerKeepsTheLids) {
  World world(tree({4, 3, 2}));
  world.manage(11);
  world.settle();
  const auto before = lids_by_guid(world);
  world.dismiss(11);
  world.manage(0);
  world.settle();
  EXPECT_EQ(lids_by_guid(world), before);
  EXPECT_EQ(world.net().port(world.port_of_host(5)).sm_lid, world.lid(world.port_of_host(0)));
}

TEST(Change, CutCableIsRoutedAround) {
  World world(tree({2, 2, 2}));
  world.manage(0);
  world.settle();
  const auto path = world.net().walk(world.port_of_host(0), world.lid(world.port_of_host(3)), 0, 0xffff);
  ASSERT_EQ(path.hops.size(), 4U);
  world.net().cut(path.hops[1].out);
  world.run_for(2 * second);  // a trap, not the next light sweep, starts it
  EXPECT_TRUE(world.manager(0).subnet_up());
  expect_all_reachable(world);
  world.net().mend(path.hops[1].out);
  world.run_for(2 * second);
  EXPECT_TRUE(world.manager(0).subnet_up());
  expect_all_active(world);
  expect_all_reachable(world);
}

TEST(Change, OnlyChangedBlocksAreSent) {
  World world(tree({12, 12, 2}));  // 144 hosts: tables of three blocks
  world.manage(0);
  world.settle();
  EXPECT_EQ(world.tables_sent, 14U * 3);
  const u64 before = world.tables_sent;
  const u32 last = world.hosts() - 1;
  world.net().power(world.port_of_host(last).node, false);
  world.run_for(2 * second);
  EXPECT_GT(world.tables_sent, before);
  EXPECT_LE(world.tables_sent, before + 14) << "one host, one block for each switch";
  expect_all_active(world);
}

TEST(Change, HostThatComesBackHasItsLid) {
  World world(tree({2, 2, 2}));
  world.manage(0);
  world.settle();
  const u16 lid = world.lid(world.port_of_host(3));
  const u32 node = world.port_of_host(3).node;
  world.net().power(node, false);
  world.run_for(2 * second);
  EXPECT_TRUE(world.manager(0).subnet_up());
  world.net().power(node, true);
  world.run_for(2 * second);
  EXPECT_EQ(world.lid(world.port_of_host(3)), lid);
  expect_all_active(world);
  expect_all_reachable(world);
}

TEST(Change, SwitchThatForgotItsTablesGetsThemAgain) {
  World world(tree({2, 2, 2}));
  world.manage(0);
  world.settle();
  for (u32 sw = 0; sw < 4; ++sw) {
    world.net().power(world.port_of_switch(sw).node, false);
    world.run_for(50'000'000);
    world.net().power(world.port_of_switch(sw).node, true);
    world.run_for(5 * second);
    EXPECT_TRUE(world.manager(0).subnet_up()) << sw;
    expect_all_active(world);
    expect_all_reachable(world);
  }
}

TEST(Change, LightSweepSeesWhatNoTrapTold) {
  World world(tree({2, 2, 2}));
  Options options;
  options.sweep_interval_ns = second;
  world.manage(0, options);
  world.settle();
  const u64 before = world.smps_sent;
  world.run_for(5 * second);
  const u64 quiet = world.smps_sent - before;
  EXPECT_GE(quiet, 5U * 4U);
  EXPECT_LE(quiet, 7U * 10U);
}

TEST(Change, DuplicateGuidIsReportedAndTheRestComesUp) {
  fabric::Fabric fabric = tree({2, 3, 1});
  fabric.hosts[4].hcas[0].node_guid = fabric.hosts[2].hcas[0].node_guid;
  fabric.hosts[4].hcas[0].ports[0].guid = fabric.hosts[2].hcas[0].ports[0].guid;
  World world(fabric);
  world.manage(0);
  world.settle();
  EXPECT_TRUE(world.logged("duplicate node GUID"));
  EXPECT_TRUE(world.manager(0).subnet_up());
  for (const u32 host : {1U, 3U, 5U}) {
    const auto path = world.net().walk(world.port_of_host(0), world.lid(world.port_of_host(host)), 0, 0xffff);
    EXPECT_EQ(path.loss, net::Loss::none) << host;
  }
}

TEST(Change, DuplicateSwitchGuidIsReportedAndTheRestComesUp) {
  fabric::Fabric fabric = tree({3, 2, 1});
  fabric.switches[3].node_guid = fabric.switches[2].node_guid;
  World world(fabric);
  world.manage(0);
  world.settle();
  EXPECT_FALSE(world.log().empty());
  EXPECT_TRUE(world.logged("duplicate")) << world.log()[0];
  const auto path = world.net().walk(world.port_of_host(0), world.lid(world.port_of_host(1)), 0, 0xffff);
  EXPECT_EQ(path.loss, net::Loss::none);
}

TEST(Change, EnhancedPort0ComesUpAsEndPortsDo) {
  World world(tree({2, 2, 1}));
  world.net().set_enhanced_port_0(world.port_of_switch(0).node, true);
  Options options;
  options.lmc = 1;
  world.manage(0, options);
  world.settle();
  EXPECT_TRUE(world.manager(0).subnet_up());
  EXPECT_EQ(world.net().port(world.port_of_switch(0)).state, ipc::PortState::active);
  EXPECT_EQ(world.net().port(world.port_of_switch(1)).state, ipc::PortState::active) << "a base one always is";
  EXPECT_EQ(world.net().port(world.port_of_switch(0)).lmc, 1);
  EXPECT_EQ(world.net().port(world.port_of_switch(1)).lmc, 0);
  EXPECT_EQ(world.net().port(world.port_of_switch(0)).pkeys[0], 0xffff);

  world.net().power(world.port_of_switch(0).node, false);
  world.run_for(10 * second);
  world.net().power(world.port_of_switch(0).node, true);
  world.run_for(20 * second);
  EXPECT_EQ(world.net().port(world.port_of_switch(0)).state, ipc::PortState::active) << "when it boots, too";
}

}  // namespace
}  // namespace softib::sm::test
