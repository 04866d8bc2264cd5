#include "sm/election.h"
#include "world.h"

namespace softib::sm::test {
namespace {

Options priority(u8 value) {
  Options options;
  options.priority = value;
  options.sweep_interval_ns = second;
  return options;
}

Rival rival(u64 guid, u8 rank, State state) {
  Rival rival;
  rival.guid = guid;
  rival.priority = rank;
  rival.state = state;
  return rival;
}

TEST(Election, Rules) {
  struct Case {
    const char* what;
    Self self;
    std::vector<Rival> rivals;
    bool lead;
    u64 other;
  };
  const Case cases[] = {
      {"alone", {5, 0, State::discovering}, {}, true, 0},
      {"a master is followed, whatever its rank", {5, 9, State::discovering}, {rival(7, 1, State::master)}, false, 7},
      {"the best of those who don't lead",
       {5, 1, State::discovering},
       {rival(7, 2, State::standby), rival(8, 3, State::discovering)},
       false,
       8},
      {"the lower GUID", {5, 1, State::discovering}, {rival(4, 1, State::discovering)}, false, 4},
      {"the higher GUID", {5, 1, State::discovering}, {rival(6, 1, State::standby)}, true, 0},
      {"one that is not active", {5, 1, State::discovering}, {rival(4, 9, State::not_active)}, true, 0},
      {"a master gives to a better standby", {5, 1, State::master}, {rival(7, 2, State::standby)}, true, 7},
      {"and to a better master", {5, 1, State::master}, {rival(7, 2, State::master)}, true, 7},
      {"not to one that still discovers", {5, 1, State::master}, {rival(7, 2, State::discovering)}, true, 0},
      {"nor to a lesser master", {5, 3, State::master}, {rival(7, 2, State::master)}, true, 0},
  };
  for (const Case& one : cases) {
    const Verdict verdict = decide(one.self, one.rivals);
    EXPECT_EQ(verdict.lead, one.lead) << one.what;
    EXPECT_EQ(verdict.other ? verdict.other->guid : 0, one.other) << one.what;
  }
}

TEST(Election, Controls) {
  EXPECT_EQ(after(State::standby, Control::handover), State::master);
  EXPECT_EQ(after(State::master, Control::acknowledge), State::standby);
  EXPECT_EQ(after(State::standby, Control::disable), State::not_active);
  EXPECT_EQ(after(State::master, Control::disable), State::master);
  EXPECT_EQ(after(State::not_active, Control::standby), State::standby);
  EXPECT_EQ(after(State::not_active, Control::handover), State::not_active);
  EXPECT_EQ(after(State::standby, Control::discover), State::discovering);
}

TEST(Mastership, HigherPriorityLeads) {
  World world(tree({2, 2, 2}));
  world.manage(0, priority(1));
  world.manage(3, priority(9));
  world.run_for(10 * second);
  EXPECT_EQ(world.manager(0).state(), State::standby);
  EXPECT_EQ(world.manager(3).state(), State::master);
  EXPECT_TRUE(world.manager(3).subnet_up());
  expect_all_active(world);
  EXPECT_EQ(world.net().port(world.port_of_host(1)).sm_lid, world.lid(world.port_of_host(3)));
}

TEST(Mastership, EqualPriorityLowerGuidLeads) {
  World world(tree({2, 2, 2}));
  world.manage(3, priority(4));
  world.manage(0, priority(4));
  world.run_for(10 * second);
  const bool first_is_lower =
      world.net().port(world.port_of_host(0)).guid < world.net().port(world.port_of_host(3)).guid;
  EXPECT_EQ(world.manager(first_is_lower ? 0 : 3).state(), State::master);
  EXPECT_EQ(world.manager(first_is_lower ? 3 : 0).state(), State::standby);
}

TEST(Mastership, LaterButBetterIsGivenTheFabric) {
  World world(tree({2, 2, 2}));
  world.manage(0, priority(1));
  world.run_for(3 * second);
  ASSERT_EQ(world.manager(0).state(), State::master);
  const auto lids = lids_by_guid(world);
  world.manage(2, priority(9));
  world.run_for(5 * second);
  EXPECT_TRUE(world.logged("handing over"));
  EXPECT_EQ(world.manager(0).state(), State::standby);
  EXPECT_EQ(world.manager(2).state(), State::master);
  EXPECT_EQ(lids_by_guid(world), lids);
  EXPECT_TRUE(world.manager(2).subnet_up());
}

TEST(Mastership, LaterAndLesserStandsBy) {
  World world(tree({2, 2, 2}));
  world.manage(0, priority(5));
  world.run_for(3 * second);
  world.manage(2, priority(1));
  world.run_for(5 * second);
  EXPECT_EQ(world.manager(0).state(), State::master);
  EXPECT_EQ(world.manager(2).state(), State::standby);
}

TEST(Mastership, StandbyTakesOverWhenTheMasterDies) {
  World world(tree({2, 2, 2}));
  world.manage(0, priority(9));
  world.manage(3, priority(1));
  world.run_for(5 * second);
  ASSERT_EQ(world.manager(3).state(), State::standby);
  world.dismiss(0);
  world.run_for(15 * second);
  EXPECT_EQ(world.manager(3).state(), State::master);
  EXPECT_TRUE(world.manager(3).subnet_up());
  EXPECT_EQ(world.net().port(world.port_of_host(1)).sm_lid, world.lid(world.port_of_host(3)));
}

TEST(Mastership, TakingOverKeepsTheLidsOfTheMaster) {
  World world(tree({3, 3, 2}));
  world.manage(8, priority(1));
  world.manage(0, priority(9));  // numbers the ports from its own end
  world.run_for(5 * second);
  ASSERT_EQ(world.manager(0).state(), State::master);
  const auto lids = lids_by_guid(world);
  world.dismiss(0);
  world.run_for(15 * second);
  ASSERT_EQ(world.manager(8).state(), State::master);
  EXPECT_EQ(lids_by_guid(world), lids);
}

TEST(Mastership, StandbyTakesOverWhenTheMastersHostIsGone) {
  World world(tree({2, 2, 2}));
  world.manage(0, priority(9));
  world.manage(3, priority(1));
  world.run_for(5 * second);
  world.net().power(world.port_of_host(0).node, false);
  world.run_for(15 * second);
  EXPECT_EQ(world.manager(3).state(), State::master);
  EXPECT_TRUE(world.manager(3).subnet_up());
}

TEST(Mastership, TwoSubnetsThatAreJoinedHaveOneMaster) {
  World world(tree({2, 2, 1}));
  const PortRef uplink{world.port_of_switch(2).node, 3};
  // The second leaf is cut off, and managed by itself.
  const auto spine_side = world.net().other_end(uplink);
  ASSERT_TRUE(spine_side);
  world.net().cut(uplink);
  world.manage(0, priority(3));
  world.manage(3, priority(8));
  world.run_for(4 * second);
  EXPECT_EQ(world.manager(0).state(), State::master);
  EXPECT_EQ(world.manager(3).state(), State::master);
  world.net().mend(uplink);
  world.run_for(20 * second);
  EXPECT_EQ(world.manager(0).state(), State::standby);
  EXPECT_EQ(world.manager(3).state(), State::master);
  EXPECT_TRUE(world.manager(3).subnet_up());
  expect_all_reachable(world);
}

}  // namespace
}  // namespace softib::sm::test
