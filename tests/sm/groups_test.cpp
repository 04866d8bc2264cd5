#include <algorithm>

#include "sm/sa/records.h"
#include "wire/smp_attributes.h"
#include "world.h"

namespace softib::sm::test {
namespace {

using namespace sa::member;
using sa::bit;
using wire::Method;

constexpr u16 member_record = 0x38;
constexpr u16 invalid = 0x200, insufficient = 0x600, no_gid = 0x500;
constexpr u64 join_mask = bit(has_mgid) | bit(has_port_gid) | bit(has_join_state);
constexpr u64 create_mask = join_mask | bit(has_qkey) | bit(has_class) | bit(has_pkey) | bit(has_flow) | bit(has_sl);

class Groups : public testing::Test {
 protected:
  Groups() : world(tree({3, 3, 2})) {
    world.manage(0);
    world.settle();
    for (u32 host = 1; host < 9; ++host) clients.push_back(std::make_unique<Client>(world, world.port_of_host(host)));
  }
  Client& client(u32 host) { return *clients[host - 1]; }

  std::vector<u8> record(u32 host, u8 states, u8 last_byte = 1) {
    std::vector<u8> data(56);
    data[0] = 0xff;
    data[1] = 0x12;
    data[15] = last_byte;
    wire::set(data, {128, 64}, 0xfe80'0000'0000'0000);
    wire::set(data, {192, 64}, world.net().port(world.port_of_host(host)).guid);
    wire::set(data, qkey, 0x1234);
    wire::set(data, pkey, 0xffff);
    wire::set(data, join_state, states);
    return data;
  }
  SaAnswer set(u32 host, u64 mask, const std::vector<u8>& data) {
    return client(host).ask({Method::set, member_record, mask, data});
  }
  SaAnswer leave(u32 host, const std::vector<u8>& data) {
    return client(host).ask({Method::remove, member_record, join_mask, data});
  }
  std::set<u32> reached(u32 host, u16 group) {
    std::set<u32> hosts;
    for (const auto& path : world.net().walk_multicast(world.port_of_host(host), group, 0, 0xffff))
      for (u32 other = 0; other < 9; ++other)
        if (path.loss == net::Loss::none && path.end == world.port_of_host(other)) hosts.insert(other);
    return hosts;
  }

  World world;
  std::vector<std::unique_ptr<Client>> clients;
};

TEST_F(Groups, PacketsReachTheMembersAndNobodyElse) {
  const SaAnswer created = set(1, create_mask, record(1, 1));
  ASSERT_EQ(created.status, 0);
  const auto group = static_cast<u16>(wire::get(created.data, mlid));
  EXPECT_GE(group, 0xc000);
  for (const u32 host : {4U, 5U, 8U}) EXPECT_EQ(set(host, join_mask, record(host, 1)).status, 0);
  EXPECT_EQ(reached(1, group), (std::set<u32>{4, 5, 8}));
  EXPECT_EQ(reached(8, group), (std::set<u32>{1, 4, 5}));
  EXPECT_EQ(leave(5, record(5, 1)).status, 0);
  EXPECT_EQ(reached(1, group), (std::set<u32>{4, 8}));
  world.manager(0).sweep();
  world.settle();
  EXPECT_EQ(reached(1, group), (std::set<u32>{4, 8}));
}

TEST_F(Groups, SendersThatDontReceive) {
  const auto group = static_cast<u16>(wire::get(set(1, create_mask, record(1, 1)).data, mlid));
  EXPECT_EQ(set(8, join_mask, record(8, 4)).status, 0);
  EXPECT_EQ(reached(8, group), std::set<u32>{1});
  EXPECT_TRUE(reached(1, group).empty());
}

TEST_F(Groups, LifeAndDeath) {
  EXPECT_EQ(set(1, join_mask, record(1, 1)).status, insufficient);
  EXPECT_EQ(set(1, join_mask & ~bit(has_join_state), record(1, 1)).status, insufficient);
  EXPECT_EQ(set(1, create_mask, record(1, 2)).status, invalid) << "only a full member creates";
  EXPECT_EQ(set(1, create_mask, record(1, 0)).status, invalid);
  ASSERT_EQ(set(1, create_mask, record(1, 1)).status, 0);
  const SaAnswer more = set(1, join_mask, record(1, 2));
  EXPECT_EQ(wire::get(more.data, join_state), 3U);
  EXPECT_EQ(leave(1, record(1, 6)).status, invalid) << "it is not a send-only member";
  const SaAnswer less = leave(1, record(1, 2));
  EXPECT_EQ(wire::get(less.data, join_state), 1U);
  EXPECT_EQ(set(2, join_mask, record(2, 2)).status, 0);
  const SaAnswer none = leave(1, record(1, 1));
  EXPECT_EQ(none.status, 0);
  EXPECT_EQ(wire::get(none.data, join_state), 0U) << "what is left";
  EXPECT_EQ(set(2, join_mask, record(2, 2)).status, invalid) << "gone with its last full member";
  EXPECT_EQ(leave(2, record(2, 2)).status, invalid);
}

TEST_F(Groups, WhatMustFit) {
  ASSERT_EQ(set(1, create_mask, record(1, 1)).status, 0);
  auto other_key = record(2, 1);
  wire::set(other_key, qkey, 99);
  EXPECT_EQ(set(2, join_mask | bit(has_qkey), other_key).status, invalid);
  EXPECT_EQ(set(2, join_mask, other_key).status, 0);
  auto foreign = record(3, 1);
  wire::set(foreign, pkey, 0x8123);
  EXPECT_EQ(set(3, join_mask | bit(has_pkey), foreign).status, invalid);
  auto nobody = record(3, 1);
  wire::set(nobody, {192, 64}, 77);
  EXPECT_EQ(set(3, join_mask, nobody).status, no_gid);
}

TEST_F(Groups, WhatCannotBe) {
  struct Case {
    const char* what;
    u64 mask;
    std::vector<std::pair<wire::Field, u64>> fields;
  };
  const u64 rates = bit(has_rate) | bit(has_rate_selector), mtus = bit(has_mtu) | bit(has_mtu_selector);
  const u64 lives = bit(has_life) | bit(has_life_selector);
  const Case cases[] = {{"faster than the links", rates, {{rate_selector, 0}, {rate, 18}}},
                        {"slower than the slowest", rates, {{rate_selector, 1}, {rate, 2}}},
                        {"more than 4096", mtus, {{mtu_selector, 0}, {mtu, 5}}},
                        {"less than 256", mtus, {{mtu_selector, 1}, {mtu, 1}}},
                        {"no such MTU", mtus, {{mtu_selector, 2}, {mtu, 9}}},
                        {"less than no time", lives, {{life_selector, 1}, {life, 0}}},
                        {"no multicast GID", 0, {{{0, 8}, 0xfa}}},
                        {"reserved flags", 0, {{{8, 8}, 0x22}}},
                        {"ours, link-local", 0, {{{16, 16}, 0xa01b}}}};
  for (const Case& one : cases) {
    auto data = record(1, 1);
    for (const auto& [field, value] : one.fields) wire::set(data, field, value);
    EXPECT_EQ(set(1, create_mask | one.mask, data).status, invalid) << one.what;
  }
}

TEST_F(Groups, ManagerInventsTheGid) {
  auto data = record(1, 1);
  std::fill_n(data.begin(), 16, u8{0});
  const SaAnswer one = set(1, create_mask, data), two = set(2, create_mask, [&] {
                                                    auto other = record(2, 1);
                                                    std::fill_n(other.begin(), 16, u8{0});
                                                    return other;
                                                  }());
  ASSERT_EQ(one.status, 0);
  ASSERT_EQ(two.status, 0);
  EXPECT_EQ(one.data[0], 0xff);
  EXPECT_FALSE(std::equal(one.data.begin(), one.data.begin() + 16, two.data.begin()));
}

TEST_F(Groups, OnlyTheManagersFriendsSeeMembers) {
  ASSERT_EQ(set(1, create_mask, record(1, 1)).status, 0);
  ASSERT_EQ(set(2, join_mask, record(2, 1)).status, 0);
  auto wanted = record(1, 1);
  const SaAnswer plain = client(3).ask({Method::get_table, member_record, bit(has_mgid), wanted});
  ASSERT_EQ(plain.count(), 1U);
  EXPECT_EQ(wire::get(plain.record(0), {192, 64}), 0U);
  const SaAnswer trusted = client(3).ask({Method::get_table, member_record, bit(has_mgid), wanted, 1});
  EXPECT_EQ(trusted.count(), 2U);
}

TEST_F(Groups, BroadcastGroupOfIpoibIsThere) {
  std::vector<u8> data(56);
  const u8 mgid[16] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
  std::copy(std::begin(mgid), std::end(mgid), data.begin());
  const SaAnswer got = client(3).ask({Method::get, member_record, bit(has_mgid), data});
  ASSERT_EQ(got.status, 0);
  EXPECT_EQ(wire::get(got.data, qkey), 0x0b1bU);
  EXPECT_EQ(wire::get(got.data, mtu), 4U);
  EXPECT_EQ(wire::get(got.data, rate), 3U);

  std::vector<u8> path(64);
  std::copy(std::begin(mgid), std::end(mgid), path.begin() + sa::path::dgid_at);
  const SaAnswer way = client(3).ask({Method::get, 0x35, bit(sa::path::has_dgid), path});
  ASSERT_EQ(way.status, 0);
  EXPECT_EQ(wire::get(way.data, sa::path::dlid), wire::get(got.data, mlid));
}

TEST_F(Groups, OneMayJoinForAnother) {
  ASSERT_EQ(set(1, create_mask, record(1, 1)).status, 0);
  const SaAnswer joined = set(1, join_mask, record(5, 1));
  ASSERT_EQ(joined.status, 0);
  EXPECT_EQ(wire::get(joined.data, proxy), 1U);
  EXPECT_EQ(leave(5, record(5, 1)).status, invalid) << "whoever asked takes it back";
  EXPECT_EQ(leave(1, record(5, 1)).status, 0);
}

TEST_F(Groups, WhoLeavesTheFabricLeavesItsGroups) {
  const auto group = static_cast<u16>(wire::get(set(1, create_mask, record(1, 1)).data, mlid));
  ASSERT_EQ(set(8, join_mask, record(8, 1)).status, 0);
  world.net().power(world.port_of_host(8).node, false);
  world.run_for(2 * second);
  EXPECT_EQ(client(3).ask({Method::get_table, member_record, bit(has_mgid), record(1, 1), 1}).count(), 1U);
  EXPECT_TRUE(reached(1, group).empty());
}

TEST_F(Groups, ManyGroupsHaveTablesOfTheirOwn) {
  std::set<u16> mlids;
  for (u8 i = 1; i <= 100; ++i) {
    const SaAnswer made = set(1, create_mask, record(1, 1, i));
    ASSERT_EQ(made.status, 0);
    const auto group = static_cast<u16>(wire::get(made.data, mlid));
    EXPECT_TRUE(mlids.insert(group).second);
    ASSERT_EQ(set(8, join_mask, record(8, 1, i)).status, 0);
    EXPECT_EQ(reached(1, group), std::set<u32>{8});
  }
}

}  // namespace
}  // namespace softib::sm::test
