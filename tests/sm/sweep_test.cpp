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

TEST(Sweep, TwoHostsAndACable) {
  World world(back_to_back());
  world.manage(0);
  world.settle();
  EXPECT_TRUE(world.manager(0).subnet_up());
  expect_all_active(world);
  Client client(world, world.port_of_host(1));
  EXPECT_EQ(client.ask({wire::Method::get_table, 0x35}).count(), 4U);
}

TEST(Sweep, PortsOfOneAdapterAreEndPortsOfTheirOwn) {
  World world(two_rails());
  world.manage(0);
  world.settle();
  EXPECT_TRUE(world.manager(0).subnet_up());
  EXPECT_FALSE(world.logged("duplicate"));
  expect_all_active(world);
  std::set<u16> lids;
  for (u32 host = 0; host < 3; ++host)
    for (u8 port = 1; port <= 2; ++port) {
      const PortRef to{world.port_of_host(host).node, port};
      lids.insert(world.lid(to));
      if (to != world.port_of_host(1)) {
        EXPECT_EQ(world.net().walk(world.port_of_host(1), world.lid(to), 0, 0xffff).end, to);
      }
    }
  EXPECT_EQ(lids.size(), 6U);
}

TEST(Sweep, ManagerOnASwitch) {
  World world(tree({3, 2, 2}));
  SubnetManager& manager = world.manage_at(world.port_of_switch(3));
  world.settle();
  EXPECT_TRUE(manager.subnet_up());
  expect_all_active(world);
  expect_all_reachable(world);
  Client client(world, world.port_of_host(0));
  EXPECT_EQ(client.ask({wire::Method::get_table, 0x11}).count(), 11U);
}

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

// CPU time of the first sweep, the network's share included.
double measure(const fabric::Fabric& fabric, Routing routing) {
  World world(fabric);
  Options options;
  options.routing = routing;
  SubnetManager& manager = world.manage(0, options);
  const double before = cpu_seconds();
  world.run_for(0);
  const double took = cpu_seconds() - before;
  EXPECT_TRUE(manager.subnet_up()) << (world.log().empty() ? "" : world.log().back());
  EXPECT_FALSE(world.logged("no fat tree"));
  std::printf("%u hosts: %.3f s of CPU, %llu MADs\n", world.hosts(), took,
              static_cast<unsigned long long>(world.smps_sent));
  expect_all_active(world);
  return took;
}

constexpr bool slow_build =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
    true;
#else
    false;
#endif

TEST(Sweep, LargeFabricTakesUnderASecond) {
  for (const Routing routing : {Routing::minhop, Routing::updn, Routing::ftree}) {
    const double took = measure(tree({35, 32, 16}), routing);  // 51 switches, 1,120 hosts
    EXPECT_LT(took, slow_build ? 60.0 : 1.0);
  }
}

TEST(Sweep, AllPathsOfALargeFabric) {
  if (slow_build) GTEST_SKIP() << "a measurement";
  World world(tree({20, 20, 10}));  // 400 hosts
  world.manage(0);
  world.settle();
  Client client(world, world.port_of_host(399));
  const double before = cpu_seconds();
  const SaAnswer paths = client.ask({wire::Method::get_table, 0x35});
  const double took = cpu_seconds() - before;
  EXPECT_GT(paths.count(), 400U * 400U);
  std::printf("%u paths: %.3f s of CPU\n", paths.count(), took);
  EXPECT_LT(took, 2.0);
}

TEST(Sweep, TenThousandEndPortsTakeUnderTenSeconds) {
  if (slow_build) GTEST_SKIP() << "a measurement";
  EXPECT_LT(measure(tree({20, 20, 10, 25, 10}), Routing::minhop), 10.0);  // 850 switches, 10,000 hosts
  EXPECT_LT(measure(tree({20, 20, 10, 25, 10}), Routing::ftree), 10.0);
}

}  // namespace
}  // namespace softib::sm::test
