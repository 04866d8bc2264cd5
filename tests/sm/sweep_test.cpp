#include <chrono>
#include <ctime>

#include "world.h"

namespace softib::sm::test {
namespace {

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void expect_up(const fabric::Fabric& fabric, const Options& options = {}) {
  World world(fabric);
  SubnetManager& manager = world.manage(0, options);
  world.settle();
  for (const auto& line : world.log()) SCOPED_TRACE(line);
  EXPECT_EQ(manager.state(), State::master);
  EXPECT_TRUE(manager.subnet_up()) << (world.log().empty() ? "" : world.log().back());
  EXPECT_TRUE(world.logged("SUBNET UP"));
  expect_all_active(world);
  expect_all_reachable(world);
}

TEST(Sweep, OneSwitch) { expect_up(one_switch(4)); }
TEST(Sweep, TwoTiers) { expect_up(tree({4, 3, 2})); }
TEST(Sweep, ThreeTiers) { expect_up(tree({2, 2, 2, 3, 2})); }
TEST(Sweep, Ring) { expect_up(ring(5, 2)); }
TEST(Sweep, ParallelCables) { expect_up(tree({3, 2, 2, 1, 0, 3})); }

TEST(Sweep, OwnPortWithoutCableIsNoSubnetAndComesUpLater) {
  World world(one_switch(3));
  world.net().cut(world.port_of_host(0));
  SubnetManager& manager = world.manage(0);
  world.settle();
  EXPECT_EQ(manager.state(), State::master);
  world.net().mend(world.port_of_host(0));
  world.run_for(3 * second);
  EXPECT_TRUE(manager.subnet_up());
  expect_all_active(world);
}

TEST(Sweep, LargeFabricTakesUnderASecond) {
  World world(tree({35, 32, 16, 1, 0}));  // 51 switches, 1,120 hosts
  SubnetManager& manager = world.manage(0);
  const double before = cpu_seconds();
  world.run_for(0);
  const double took = cpu_seconds() - before;
  EXPECT_TRUE(manager.subnet_up()) << (world.log().empty() ? "" : world.log().back());
  RecordProperty("cpu_ms", static_cast<int>(took * 1000));
  std::printf("1,120 hosts: %.3f s of CPU, %llu MADs\n", took, static_cast<unsigned long long>(world.smps_sent));
  expect_all_active(world);
}

}  // namespace
}  // namespace softib::sm::test
