#include "sm/sa/records.h"
#include "wire/notice.h"
#include "world.h"

namespace softib::sm::test {
namespace {

using wire::Method;

std::vector<u8> inform(bool subscribe, u16 trap) {
  std::vector<u8> info(36);
  wire::set(info, sa::inform::first_lid, 0xffff);
  wire::set(info, sa::inform::generic, 1);
  wire::set(info, sa::inform::subscribe, subscribe);
  wire::set(info, sa::inform::type, 0xffff);
  wire::set(info, sa::inform::trap, trap);
  wire::set(info, sa::inform::producer, 0xff'ffff);
  return info;
}

u64 trap_of(const wire::Packet& report) {
  return wire::get(std::span(report.mad).subspan(wire::sa::data_at), wire::notice::trap_number);
}
u64 gid_of(const wire::Packet& report) {
  return wire::get(std::span(report.mad).subspan(wire::sa::data_at + wire::notice::gid_at), {64, 64});
}

class Events : public testing::Test {
 protected:
  Events() : world(tree({2, 2, 2})) {
    world.manage(0);
    world.settle();
    client = std::make_unique<Client>(world, world.port_of_host(1));
  }
  SaAnswer set(bool subscribe, u16 trap) { return client->ask({Method::set, 3, 0, inform(subscribe, trap)}); }

  World world;
  std::unique_ptr<Client> client;
};

TEST_F(Events, PortsThatComeAndGoAreReported) {
  EXPECT_EQ(set(true, 64).status, 0);
  EXPECT_EQ(set(true, 65).status, 0);
  const u64 guid = world.net().port(world.port_of_host(3)).guid;
  world.net().power(world.port_of_host(3).node, false);
  world.run_for(2 * second);
  ASSERT_EQ(client->reports.size(), 1U);
  EXPECT_EQ(trap_of(client->reports[0]), 65U);
  EXPECT_EQ(gid_of(client->reports[0]), guid);
  world.net().power(world.port_of_host(3).node, true);
  world.run_for(2 * second);
  ASSERT_EQ(client->reports.size(), 2U);
  EXPECT_EQ(trap_of(client->reports[1]), 64U);
}

TEST_F(Events, TrapsAreForwardedToWhoAsked) {
  EXPECT_EQ(set(true, 128).status, 0);
  world.net().power(world.port_of_host(3).node, false);
  world.run_for(2 * second);
  ASSERT_FALSE(client->reports.empty());
  EXPECT_EQ(trap_of(client->reports[0]), 128U);
}

TEST_F(Events, GroupsThatComeAndGoAreReported) {
  EXPECT_EQ(set(true, 66).status, 0);
  EXPECT_EQ(set(true, 67).status, 0);
  std::vector<u8> data(56);
  data[0] = 0xff;
  data[1] = 0x12;
  data[15] = 9;
  wire::set(data, {128, 64}, 0xfe80'0000'0000'0000);
  wire::set(data, {192, 64}, world.net().port(world.port_of_host(1)).guid);
  wire::set(data, sa::member::pkey, 0xffff);
  wire::set(data, sa::member::join_state, 1);
  const u64 mask = 0x130c7;  // all that creating takes
  EXPECT_EQ(client->ask({Method::set, 0x38, mask, data}).status, 0);
  EXPECT_EQ(client->ask({Method::remove, 0x38, mask, data}).status, 0);
  world.run_for(second);
  ASSERT_EQ(client->reports.size(), 2U);
  EXPECT_EQ(trap_of(client->reports[0]), 66U);
  EXPECT_EQ(trap_of(client->reports[1]), 67U);
}

TEST_F(Events, SubscriptionsAreListedAndEnd) {
  EXPECT_EQ(set(true, 64).status, 0);
  EXPECT_EQ(set(true, 64).status, 0);
  EXPECT_EQ(client->ask({Method::get_table, 0xf3}).count(), 1U);
  EXPECT_EQ(set(false, 64).status, 0);
  EXPECT_EQ(set(false, 64).status, 0x200);
  EXPECT_EQ(client->ask({Method::get_table, 0xf3}).count(), 0U);
}

TEST_F(Events, UnansweredReportsAreRepeatedThreeTimes) {
  EXPECT_EQ(set(true, 65).status, 0);
  client->answer_reports = false;
  world.net().power(world.port_of_host(3).node, false);
  world.run_for(10 * second);
  EXPECT_EQ(client->reports.size(), 3U);
}

}  // namespace
}  // namespace softib::sm::test
