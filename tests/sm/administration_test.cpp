// What subnet administration answers, against what the network says.
#include "sm/sa/records.h"
#include "world.h"

namespace softib::sm::test {
namespace {

using sa::bit;
using sa::RecordType;
using wire::Method;

constexpr u16 no_records = 0x300, too_many = 0x400, invalid_gid = 0x500;

class Administration : public testing::Test {
 protected:
  explicit Administration(const fabric::Fabric& fabric = tree({3, 3, 2})) : world(fabric) {
    world.manage(0);
    world.settle();
    client = std::make_unique<Client>(world, world.port_of_host(4));
  }

  SaAnswer table(RecordType type, u64 mask = 0, std::vector<u8> data = {}, u64 key = 0) {
    return client->ask({Method::get_table, static_cast<u16>(type), mask, std::move(data), key});
  }
  SaAnswer get(RecordType type, u64 mask, std::vector<u8> data) {
    return client->ask({Method::get, static_cast<u16>(type), mask, std::move(data)});
  }
  static std::vector<u8> by_lid(u16 lid) { return {static_cast<u8>(lid >> 8), static_cast<u8>(lid)}; }
  u16 host_lid(u32 host) { return world.lid(world.port_of_host(host)); }
  u64 host_guid(u32 host) { return world.net().port(world.port_of_host(host)).guid; }

  std::vector<u8> path_query(u64 source, u64 destination) {
    std::vector<u8> data(64);
    wire::set(data, {8 * 8, 64}, 0xfe80'0000'0000'0000);
    wire::set(data, {16 * 8, 64}, destination);
    wire::set(data, {24 * 8, 64}, 0xfe80'0000'0000'0000);
    wire::set(data, {32 * 8, 64}, source);
    return data;
  }

  World world;
  std::unique_ptr<Client> client;
};

TEST_F(Administration, NodesOfTheWholeSubnet) {
  const SaAnswer all = table(RecordType::node);
  ASSERT_TRUE(all.came);
  EXPECT_EQ(all.status, 0);
  EXPECT_EQ(all.record_size, 112U);
  ASSERT_EQ(all.count(), 5U + 9U);
  for (u32 i = 0; i < all.count(); ++i) EXPECT_NE(wire::get(all.record(i), {0, 16}), 0U);
}

TEST_F(Administration, ComponentsChooseNodes) {
  std::vector<u8> switches(112);
  wire::set(switches, {48, 8}, 2);
  EXPECT_EQ(table(RecordType::node, bit(4), switches).count(), 5U);
  const SaAnswer one = get(RecordType::node, bit(0), by_lid(host_lid(5)));
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(wire::get(one.data, {192, 64}), host_guid(5));
  EXPECT_EQ(get(RecordType::node, bit(4), switches).status, too_many);
  EXPECT_EQ(get(RecordType::node, bit(0), by_lid(999)).status, no_records);
  const SaAnswer none = table(RecordType::node, bit(0), by_lid(999));
  EXPECT_EQ(none.status, 0);
  EXPECT_EQ(none.count(), 0U);
  std::vector<u8> named(112);
  const std::string& description = world.net().description(world.port_of_host(7).node);
  std::copy(description.begin(), description.end(), named.begin() + 44);
  EXPECT_EQ(table(RecordType::node, bit(14), named).count(), 1U);
}

TEST_F(Administration, PortsSwitchesLinksAndManagers) {
  const u16 leaf = world.lid(world.port_of_switch(2));
  EXPECT_EQ(table(RecordType::port_info, bit(0), by_lid(leaf)).count(), 6U);  // with port 0
  EXPECT_EQ(table(RecordType::port_info, bit(0), by_lid(host_lid(1))).count(), 1U);
  EXPECT_EQ(table(RecordType::switch_info).count(), 5U);
  EXPECT_EQ(table(RecordType::link).count(), 2U * (9 + 6));
  const SaAnswer managers = table(RecordType::sm_info);
  ASSERT_EQ(managers.count(), 1U);
  EXPECT_EQ(wire::get(managers.record(0), {32, 64}), host_guid(0));
  EXPECT_EQ(wire::get(managers.record(0), {196, 4}), 3U);

  std::vector<u8> with_manager(72);
  wire::set(with_manager, {192, 32}, 2);  // IsSM, as saquery -s asks
  const SaAnswer found =
      client->ask({Method::get_table, static_cast<u16>(RecordType::port_info), bit(7), with_manager, 0, 1U << 31});
  ASSERT_EQ(found.count(), 1U);
  EXPECT_EQ(wire::get(found.record(0), {0, 16}), host_lid(0));
}

TEST_F(Administration, TablesAreThoseOfTheSwitches) {
  const u16 leaf = world.lid(world.port_of_switch(3));
  const SaAnswer linear = table(RecordType::linear_forwarding, bit(0), by_lid(leaf));
  ASSERT_EQ(linear.count(), 1U);
  for (u32 host = 0; host < 9; ++host) {
    const auto path = world.net().walk({world.port_of_switch(3).node, 0}, host_lid(host), 0, 0xffff);
    ASSERT_FALSE(path.hops.empty());
    EXPECT_EQ(linear.record(0)[8 + host_lid(host)], path.hops[0].out.port);
  }
  EXPECT_EQ(table(RecordType::multicast_forwarding, bit(0), by_lid(leaf)).status, 0);
}

TEST_F(Administration, TablesThatOnlyTheNodesHave) {
  const u16 leaf = world.lid(world.port_of_switch(2)), host = host_lid(3);
  EXPECT_EQ(table(RecordType::sl_to_vl, bit(0), by_lid(host)).count(), 1U);
  EXPECT_EQ(table(RecordType::sl_to_vl, bit(0), by_lid(leaf)).count(), 36U);
  EXPECT_EQ(table(RecordType::vl_arbitration, bit(0), by_lid(host)).count(), 4U);
  const SaAnswer keys = table(RecordType::pkey_table, bit(0), by_lid(host), sm_key);
  ASSERT_GE(keys.count(), 1U);
  EXPECT_EQ(wire::get(keys.record(0), {64, 16}), 0xffffU);
  const SaAnswer guids = table(RecordType::guid_info, bit(0), by_lid(host));
  ASSERT_GE(guids.count(), 1U);
  EXPECT_EQ(wire::get(guids.record(0), {64, 64}), host_guid(3));
  EXPECT_GT(table(RecordType::sl_to_vl).count(), 36U * 3);
}

TEST_F(Administration, KeysOfOthersAreForWhoHasTheManagersKey) {
  EXPECT_EQ(table(RecordType::pkey_table, bit(0), by_lid(host_lid(3))).status, 0x200);
}

// As osmtest asks: each block of each port by its number, port 0 too.
TEST_F(Administration, ArbitrationHasFourBlocksForEachPort) {
  const u64 block_of_port = bit(0) | bit(1) | bit(2);
  for (const u16 lid : {world.lid(world.port_of_switch(2)), host_lid(3)})
    for (u8 port = 0; port < 2; ++port)
      for (u8 block = 1; block <= 4; ++block) {
        auto query = by_lid(lid);
        query.insert(query.end(), {port, block});
        EXPECT_EQ(table(RecordType::vl_arbitration, block_of_port, query).count(), 1U) << lid << " " << +port;
      }
}

// A channel adapter's tables have no port number.
TEST_F(Administration, PortNumbersOfAdaptersDontMatter) {
  auto query = by_lid(host_lid(3));
  query.insert(query.end(), {u8{1}, u8{1}});
  EXPECT_EQ(table(RecordType::sl_to_vl, bit(0) | bit(1) | bit(2), query).count(), 1U);
}

TEST_F(Administration, PathBetweenTwoPorts) {
  const u64 mask = bit(sa::path::has_dgid) | bit(sa::path::has_sgid);
  const SaAnswer path = get(RecordType::path, mask, path_query(host_guid(1), host_guid(8)));
  ASSERT_EQ(path.status, 0);
  EXPECT_EQ(path.record_size, 64U);
  EXPECT_EQ(wire::get(path.data, sa::path::slid), host_lid(1));
  EXPECT_EQ(wire::get(path.data, sa::path::dlid), host_lid(8));
  EXPECT_EQ(wire::get(path.data, sa::path::pkey), 0xffffU);
  EXPECT_EQ(wire::get(path.data, sa::path::reversible), 1U);
  EXPECT_EQ(wire::get(path.data, sa::path::mtu), 5U);
  EXPECT_EQ(wire::get(path.data, sa::path::rate), 17U);  // 4X HDR
  EXPECT_EQ(get(RecordType::path, mask, path_query(1, host_guid(8))).status, invalid_gid);
}

TEST_F(Administration, PathsByLidAndSelectors) {
  std::vector<u8> query(64);
  wire::set(query, sa::path::slid, host_lid(1));
  wire::set(query, sa::path::dlid, host_lid(8));
  const u64 lids = bit(sa::path::has_dlid) | bit(sa::path::has_slid);
  EXPECT_EQ(get(RecordType::path, lids, query).status, 0);

  const u64 with_rate = lids | bit(sa::path::has_rate) | bit(sa::path::has_rate_selector);
  wire::set(query, sa::path::rate, 17);
  wire::set(query, sa::path::rate_selector, 0);  // faster than the links are
  EXPECT_EQ(get(RecordType::path, with_rate, query).status, no_records);
  wire::set(query, sa::path::rate_selector, 1);  // slower: the next one
  const SaAnswer slower = get(RecordType::path, with_rate, query);
  ASSERT_EQ(slower.status, 0);
  EXPECT_EQ(wire::get(slower.data, sa::path::rate), 14U);

  const u64 with_mtu = lids | bit(sa::path::has_mtu) | bit(sa::path::has_mtu_selector);
  wire::set(query, sa::path::mtu_selector, 2);
  wire::set(query, sa::path::mtu, 3);
  EXPECT_EQ(wire::get(get(RecordType::path, with_mtu, query).data, sa::path::mtu), 3U);
  wire::set(query, sa::path::pkey, 0x1234);
  EXPECT_EQ(get(RecordType::path, lids | bit(sa::path::has_pkey), query).status, no_records);
}

TEST_F(Administration, AllPathsOfAllPorts) {
  EXPECT_EQ(table(RecordType::path).count(), (9U + 3) * (9U + 3) + 2 * (2U * 12) + 4);
}

TEST_F(Administration, SeveralPorts) {
  std::vector<u8> query(24 + 3 * 16);
  wire::set(query, {120, 8}, 1);
  wire::set(query, {128, 8}, 2);
  for (u32 i = 0; i < 3; ++i) {
    wire::set(query, {static_cast<u16>((24 + 16 * i) * 8), 64}, 0xfe80'0000'0000'0000);
    wire::set(query, {static_cast<u16>((32 + 16 * i) * 8), 64}, host_guid(2 + i));
  }
  const SaAnswer answer =
      client->ask({Method::get_multi, static_cast<u16>(RecordType::multi_path), bit(19) | bit(20), query});
  EXPECT_EQ(answer.status, 0);
  ASSERT_EQ(answer.count(), 2U);
  EXPECT_EQ(wire::get(answer.record(1), sa::path::dlid), host_lid(4));
}

TEST_F(Administration, TraceOfAPath) {
  const SaAnswer trace =
      client->ask({Method::get_trace_table, static_cast<u16>(RecordType::trace),
                   bit(sa::path::has_dgid) | bit(sa::path::has_sgid), path_query(host_guid(1), host_guid(8))});
  EXPECT_EQ(trace.count(), 5U);  // host, leaf, spine, leaf, host
}

TEST_F(Administration, StatusesOfWhatIsNotThere) {
  EXPECT_EQ(client->ask({Method::get_table, 0x7777}).status, 3U << 2);
  EXPECT_EQ(client->ask({Method::set, static_cast<u16>(RecordType::node)}).status, 3U << 2);
  EXPECT_EQ(client->ask({static_cast<Method>(0x3f), static_cast<u16>(RecordType::node)}).status, 2U << 2);
  EXPECT_FALSE(client->ask({Method::get_table, static_cast<u16>(RecordType::node), 0, {}, 0xbad}).came);
}

TEST_F(Administration, ClassPortInfo) {
  const SaAnswer info = client->ask({Method::get, 1});
  EXPECT_EQ(info.status, 0);
  EXPECT_EQ(info.data[0], 1);
  EXPECT_EQ(info.data[1], 2);
}

TEST_F(Administration, LongAnswersSurviveLostSegments) {
  for (const u32 every : {3U, 5U, 7U}) {
    client->lose_every = every;
    const SaAnswer all = table(RecordType::path);
    ASSERT_TRUE(all.came) << every;
    EXPECT_EQ(all.count(), 196U);
  }
}

}  // namespace
}  // namespace softib::sm::test
