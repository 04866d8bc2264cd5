// Partitions on a network: the parser's own tests are in tests/fabric.
#include "world.h"

namespace softib::sm::test {
namespace {

TEST(Partitions, PortsGetTheirTables) {
  World world(tree({2, 2, 1}));
  const u64 guid = world.net().port(world.port_of_host(2)).guid;
  Options options;
  options.partitions = "Default=0x7fff:ALL=full;\nA=0x12,ipoib:" + std::to_string(guid) + "=full,0x1=full;\nbroken;\n";
  world.manage(0, options);
  world.settle();
  EXPECT_TRUE(world.logged("partitions.conf:3"));
  EXPECT_TRUE(world.manager(0).subnet_up());
  const auto has = [&](u32 host, u16 key) {
    const auto keys = world.net().port(world.port_of_host(host)).pkeys;
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  EXPECT_TRUE(has(2, 0xffff) && has(2, 0x8012));
  EXPECT_TRUE(has(1, 0xffff) && !has(1, 0x8012));
  EXPECT_EQ(world.net().walk(world.port_of_host(0), world.lid(world.port_of_host(1)), 0, 0x8012).loss,
            net::Loss::bad_pkey);
}

}  // namespace
}  // namespace softib::sm::test
