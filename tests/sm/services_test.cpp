// Services that ports register with subnet administration: who may, who sees them, how long they last.
#include "sm/sa/records.h"
#include "world.h"

namespace softib::sm::test {
namespace {

using sa::bit;
using wire::Method;
namespace service = sa::service;

constexpr u16 request_invalid = 0x200, nothing_found = 0x300, components_missing = 0x600;
constexpr u64 id_bit = bit(service::has_id), gid_bit = bit(service::has_gid), pkey_bit = bit(service::has_pkey),
              lease_bit = bit(service::has_lease), key_bit = bit(5), name_bit = bit(6);
constexpr u64 usual = id_bit | gid_bit | name_bit;

class Services : public testing::Test {
 protected:
  explicit Services(const Options& options = {}) : world(tree({3, 3, 2})) {
    world.manage(0, options);
    world.settle();
    for (u32 host = 0; host < world.hosts(); ++host)
      clients.push_back(std::make_unique<Client>(world, world.port_of_host(host)));
  }

  // On host 4.
  std::vector<u8> record(u64 id = 0x1000) {
    std::vector<u8> data(service::size);
    wire::set(data, service::id, id);
    wire::set(data, {64, 64}, 0xfe80'0000'0000'0000);
    wire::set(data, {128, 64}, world.net().port(world.port_of_host(4)).guid);
    data[48] = 'x';
    return data;
  }
  static std::vector<u8> with(std::vector<u8> data, wire::Field field, u64 value) {
    wire::set(data, field, value);
    return data;
  }
  SaAnswer ask(Method method, u64 mask, const std::vector<u8>& data, u32 host = 4, u64 key = 0) {
    return clients[host]->ask({method, static_cast<u16>(sa::RecordType::service), mask, data, key});
  }
  u32 seen_by(u32 host, u64 mask = 0) { return ask(Method::get_table, mask, record(), host).count(); }
  static u64 pkey_of(const SaAnswer& answer) { return wire::get(answer.data, service::pkey); }

  World world;
  std::vector<std::unique_ptr<Client>> clients;
};

TEST_F(Services, AreFoundByTheirComponents) {
  EXPECT_EQ(ask(Method::set, id_bit, record()).status, request_invalid);
  ASSERT_EQ(ask(Method::set, usual, record()).status, 0);
  ASSERT_EQ(ask(Method::set, usual, with(record(0x2000), {384, 8}, 'y')).status, 0);
  EXPECT_EQ(seen_by(7), 2U);
  EXPECT_EQ(seen_by(7, id_bit), 1U);
  EXPECT_EQ(seen_by(7, gid_bit), 2U);
  EXPECT_EQ(seen_by(7, name_bit), 1U);
  EXPECT_EQ(ask(Method::get, name_bit, record(), 7).status, 0);
  EXPECT_EQ(ask(Method::get, gid_bit, record(), 7).status, 0x400) << "there are two";
  EXPECT_EQ(ask(Method::get, id_bit, record(0x3000), 7).status, nothing_found);
}

TEST_F(Services, KeepTheirData) {
  std::vector<u8> data = record();
  for (u32 i = 112; i < service::size; ++i) data[i] = static_cast<u8>(i);
  ASSERT_EQ(ask(Method::set, usual | bit(7) | bit(36), data).status, 0);
  for (u32 component = 7; component < 37; ++component) {
    EXPECT_EQ(ask(Method::get, bit(component), data, 7).status, 0) << component;
    EXPECT_EQ(ask(Method::get, bit(component), record(), 7).status, nothing_found) << component;
  }
  const SaAnswer got = ask(Method::get, id_bit, data, 7);
  EXPECT_TRUE(std::equal(data.begin() + 112, data.end(), got.data.begin() + 112));
}

TEST_F(Services, LastAsLongAsTheirLease) {
  const auto data = with(record(), service::lease, 5);
  ASSERT_EQ(ask(Method::set, usual | lease_bit, data).status, 0);
  world.run_for(2 * second);
  EXPECT_LE(wire::get(ask(Method::get, id_bit, data).data, service::lease), 3U) << "what is left of it";
  ASSERT_EQ(ask(Method::set, usual | lease_bit, data).status, 0) << "renewed";
  world.run_for(4 * second);
  EXPECT_EQ(seen_by(7), 1U);
  world.run_for(2 * second);
  EXPECT_EQ(seen_by(7), 0U) << "its lease is over";
  const SaAnswer set = ask(Method::set, usual, data);
  EXPECT_EQ(wire::get(set.data, service::lease), 0xffff'ffffU) << "without the component it has no end";
}

TEST_F(Services, AreTakenBackOnce) {
  ASSERT_EQ(ask(Method::set, usual, record()).status, 0);
  EXPECT_EQ(ask(Method::remove, id_bit | gid_bit, record(0x2000)).status, nothing_found);
  EXPECT_EQ(ask(Method::remove, id_bit | gid_bit, record()).status, 0);
  EXPECT_EQ(ask(Method::remove, id_bit | gid_bit, record()).status, nothing_found);
  EXPECT_EQ(seen_by(4), 0U);
}

// As osmtest does: id and GID are filled in, the mask says the name only.
TEST_F(Services, AreTakenBackByTheirName) {
  ASSERT_EQ(ask(Method::set, usual, record()).status, 0);
  EXPECT_EQ(ask(Method::remove, name_bit, with(record(), {384, 8}, 'y')).status, nothing_found);
  EXPECT_EQ(ask(Method::remove, 0, record()).status, components_missing);
  EXPECT_EQ(ask(Method::remove, name_bit, record()).status, 0);
}

TEST_F(Services, KeysAreForWhoHasTheManagersKey) {
  constexpr wire::Field key{256, 64};
  // osmtest's prefix: its bytes are in the wrong order
  const auto data = with(with(record(), {64, 64}, 0x80fe), key, 0x1234);
  const SaAnswer set = ask(Method::set, usual | key_bit, data);
  ASSERT_EQ(set.status, 0);
  EXPECT_EQ(wire::get(set.data, key), 0U);
  EXPECT_EQ(wire::get(ask(Method::get, id_bit | key_bit, data).data, key), 0U) << "also to who knows it";
  EXPECT_EQ(ask(Method::get, id_bit | key_bit, with(data, key, 0x1235)).status, nothing_found);
  EXPECT_EQ(wire::get(ask(Method::get_table, id_bit, data, 4, sm_key).record(0), key), 0x1234U);
}

TEST_F(Services, AreThoseOfPortsThatAreThere) {
  EXPECT_EQ(ask(Method::set, usual, with(record(), {128, 64}, 0x77)).status, request_invalid);
  ASSERT_EQ(ask(Method::set, usual, record()).status, 0);
  world.net().cut(world.port_of_host(4));
  world.run_for(2 * second);
  EXPECT_EQ(seen_by(7), 0U);
  world.net().mend(world.port_of_host(4));
  world.run_for(2 * second);
  EXPECT_EQ(seen_by(7), 1U) << "a link that flapped has ended nothing";
}

// Host 4 and host 7 are in partition 0x12, host 5 is not.
class ServicesInPartitions : public Services {
 protected:
  ServicesInPartitions() : Services(partitions()) {}
  static Options partitions() {
    Options options;
    options.partitions = "Default=0x7fff:ALL=full;\nA=0x12:" + guid(4) + "=full," + guid(7) + "=limited;\n";
    return options;
  }
  static std::string guid(u32 host) {
    World world(tree({3, 3, 2}));
    return std::to_string(world.net().port(world.port_of_host(host)).guid);
  }
};

TEST_F(ServicesInPartitions, AreShownToMembers) {
  ASSERT_EQ(ask(Method::set, usual | pkey_bit, with(record(), service::pkey, 0x8012)).status, 0);
  EXPECT_EQ(seen_by(4), 1U);
  EXPECT_EQ(seen_by(7), 1U) << "limited members are members";
  EXPECT_EQ(seen_by(5), 0U);
}

TEST_F(ServicesInPartitions, AreRegisteredByMembersForMembers) {
  const auto data = with(record(), service::pkey, 0x8012);
  EXPECT_EQ(ask(Method::set, usual | pkey_bit, data, 5).status, request_invalid) << "who asks is no member";
  EXPECT_EQ(ask(Method::set, usual | pkey_bit, data, 7).status, 0);
  EXPECT_EQ(ask(Method::remove, id_bit | gid_bit | pkey_bit, data, 5).status, request_invalid);
  const u64 other = world.net().port(world.port_of_host(5)).guid;
  EXPECT_EQ(ask(Method::set, usual | pkey_bit, with(data, {128, 64}, other), 7).status, request_invalid)
      << "whose it is";
}

TEST_F(ServicesInPartitions, AreOthersInOtherPartitions) {
  const auto data = with(record(), service::pkey, 0x8012);
  const SaAnswer set = ask(Method::set, usual, data);
  ASSERT_EQ(set.status, 0);
  EXPECT_EQ(pkey_of(set), 0xffffU) << "the mask names no P_Key";
  EXPECT_EQ(pkey_of(ask(Method::set, usual | pkey_bit, data)), 0x8012U);
  EXPECT_EQ(seen_by(4), 2U);
  EXPECT_EQ(seen_by(5), 1U);
  EXPECT_EQ(ask(Method::remove, id_bit | gid_bit | pkey_bit, data).status, 0);
  EXPECT_EQ(seen_by(4), 1U);
  EXPECT_EQ(pkey_of(ask(Method::get, id_bit, data)), 0xffffU);
}

}  // namespace
}  // namespace softib::sm::test
