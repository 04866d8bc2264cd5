// Traps: what they tell, that they come again until they are repressed, and not too often. M_Key protection.
#include "lab.h"

namespace softib::net::test {

namespace info = wire::port_info;
using wire::TrapNumber;

class TrapsTest : public Lab {
 protected:
  void SetUp() override { bring_up(); }

  // From the subnet manager on host0.
  void repress(const wire::Packet& trap) {
    wire::Packet packet = trap;
    packet.dlid = trap.slid;
    packet.slid = lid_of_host(0);
    wire::set(packet.mad, wire::header::method, static_cast<u8>(Method::trap_repress));
    net_->send(at_host(0), packet);
  }
  // sw1's way to the manager on host0, without the link to sw0.
  void route_sw1_by_sw2() {
    Data table = get({1, 3, 2}, SmpAttribute::linear_forwarding).data;
    table[lid_of_host(0)] = 3;
    ASSERT_TRUE(set({1, 3, 2}, SmpAttribute::linear_forwarding, 0, table).ok());
  }
  static constexpr u64 interval = u64{4096} << 18;
};

TEST_F(TrapsTest, ALostLinkIsToldOfByBothSwitches) {
  net_->cut({sw1, 3});
  const auto found = traps(TrapNumber::link_state);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].slid, lid_of_switch(1));
  EXPECT_EQ(notice(found[0], wire::notice::is_generic), 1U);
  EXPECT_EQ(notice(found[0], wire::notice::type), 1U);
  EXPECT_EQ(notice(found[0], wire::notice::producer), 2U);
  EXPECT_EQ(notice(found[0], wire::notice::issuer_lid), lid_of_switch(1));
  EXPECT_EQ(notice(found[0], wire::notice::switch_lid), lid_of_switch(1));
}

TEST_F(TrapsTest, TheyComeAgainUntilRepressed) {
  net_->cut(at_host(1));
  ASSERT_EQ(traps(TrapNumber::link_state).size(), 1U);
  const u64 next = net_->on_time(100 * second);
  EXPECT_EQ(next, 100 * second + interval) << "SubnetTimeOut 18";
  (void)net_->on_time(next - 1);
  EXPECT_EQ(traps(TrapNumber::link_state).size(), 1U);
  (void)net_->on_time(next);
  (void)net_->on_time(next + interval);
  const auto found = traps(TrapNumber::link_state);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].mad, found[2].mad) << "the same, transaction and all";
  repress(found[2]);
  (void)net_->on_time(next + 5 * interval);
  EXPECT_EQ(net_->on_time(next + 10 * interval), ~u64{0});
  EXPECT_EQ(traps(TrapNumber::link_state).size(), 3U);
}

TEST_F(TrapsTest, TheSameAgainWaitsForItsTime) {
  net_->cut(at_host(1));
  repress(traps(TrapNumber::link_state).at(0));
  net_->mend(at_host(1));
  EXPECT_EQ(traps(TrapNumber::link_state).size(), 1U);
  const u64 next = net_->on_time(second);
  (void)net_->on_time(next);
  EXPECT_EQ(traps(TrapNumber::link_state).size(), 2U);
}

TEST_F(TrapsTest, ARepressOfSomethingElseDoesNothing) {
  net_->cut(at_host(1));
  wire::Packet other = traps(TrapNumber::link_state).at(0);
  wire::set(other.mad, wire::header::transaction, 0x9999);
  wire::set(std::span(other.mad).subspan(wire::smp::data_at), wire::notice::trap_number, 144);
  repress(other);
  (void)net_->on_time(second);
  (void)net_->on_time(second + interval);
  EXPECT_EQ(traps(TrapNumber::link_state).size(), 2U);
}

TEST_F(TrapsTest, NobodyToTell) {
  const std::vector<Change> no_manager = {{info::sm_lid, 0}};
  ASSERT_TRUE(set_port({1, 2}, 0, no_manager).ok());
  net_->cut(at_host(1));
  EXPECT_TRUE(traps(TrapNumber::link_state).empty());
  EXPECT_EQ(net_->on_time(second), ~u64{0});
}

// Disabling acts on the link, and the link's own logic takes the port down: both switches tell.
TEST_F(TrapsTest, ADisabledPortIsToldOf) {
  ASSERT_TRUE(set_port({1}, 2, {{info::physical_state, 3}}).ok());
  const auto found = traps(TrapNumber::link_state);
  ASSERT_EQ(found.size(), 1U) << "sw1's way to the manager went through that link";
  EXPECT_EQ(found[0].slid, lid_of_switch(0));
  route_sw1_by_sw2();
  (void)net_->on_time(second);
  (void)net_->on_time(second + interval);
  const auto later = traps(TrapNumber::link_state);
  EXPECT_TRUE(std::any_of(later.begin(), later.end(), [](const auto& trap) { return trap.slid == lid_of_switch(1); }));
}

TEST_F(TrapsTest, LinkTrouble) {
  net_->count({sw1, 3}, Cause::local_integrity, 1);
  net_->count({sw1, 2}, Cause::local_integrity, 1);
  net_->count(at_host(1), Cause::buffer_overrun, 1);
  net_->count(at_host(1), Cause::flow_control_watchdog, 1);
  const auto found = traps(TrapNumber::link_integrity);
  ASSERT_EQ(found.size(), 2U) << "one for each port";
  EXPECT_EQ(notice(found[0], wire::notice::lid), lid_of_switch(1));
  EXPECT_EQ(notice(found[0], wire::notice::port), 3U);
  EXPECT_EQ(traps(TrapNumber::buffer_overrun).size(), 1U);
  EXPECT_EQ(traps(TrapNumber::flow_control_watchdog).size(), 1U);
}

TEST_F(TrapsTest, LocalChanges) {
  net_->set_capabilities(at_host(1), wire::port_cap::is_sm, true);
  auto found = traps(TrapNumber::local_changes);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(notice(found[0], wire::notice::lid), lid_of_host(1));
  EXPECT_EQ(notice(found[0], wire::notice::other_local_changes), 0U);
  EXPECT_TRUE(notice(found[0], wire::notice::capability_mask) & wire::port_cap::is_sm);
  net_->set_description(host2, "renamed");
  found = traps(TrapNumber::local_changes);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(notice(found[1], wire::notice::other_local_changes), 1U);
  EXPECT_EQ(notice(found[1], wire::notice::change_flags), wire::local_change::node_description);
}

TEST_F(TrapsTest, BadPkeys) {
  wire::Packet packet = smp(MgmtClass::subn_adm, {});
  packet.dlid = lid_of_host(1);
  packet.destination_qp = packet.source_qp = 1;
  packet.pkey = 0x8002;
  Data keys{};
  wire::set(keys, wire::pkey_table::key(0), 0xffff);
  wire::set(keys, wire::pkey_table::key(1), 0x8002);
  ASSERT_TRUE(set({}, SmpAttribute::pkey_table, 0, keys).ok());
  net_->send(at_host(0), packet);
  const auto found = traps(TrapNumber::bad_p_key);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(notice(found[0], wire::notice::type), 2U);
  EXPECT_EQ(notice(found[0], wire::notice::lid), lid_of_host(0));
  EXPECT_EQ(notice(found[0], wire::notice::lid2), lid_of_host(1));
  EXPECT_EQ(notice(found[0], wire::notice::key), 0x8002U);
  ASSERT_TRUE(set_port({1}, 1, {{info::enforce_inbound, 1}}).ok());
  net_->send(at_host(0), packet);
  const auto at_switch = traps(TrapNumber::bad_p_key_at_switch);
  ASSERT_EQ(at_switch.size(), 1U);
  EXPECT_EQ(notice(at_switch[0], wire::notice::p_key), 0x8002U);
  EXPECT_EQ(notice(at_switch[0], wire::notice::switch_lid_259), lid_of_switch(0));
  EXPECT_EQ(notice(at_switch[0], wire::notice::switch_port_259), 1U);
}

class MKeyTest : public TrapsTest {
 protected:
  static constexpr u64 key = 0x1122'3344'5566'7788;
  void protect(u64 bits, u64 lease = 0) {
    const std::vector<Change> changes = {
        {info::m_key, key}, {info::m_key_protect_bits, bits}, {info::m_key_lease_period, lease}};
    ASSERT_TRUE(set_port(to_host(1), 0, changes).ok());
  }
  Answer ask_with(u64 m_key, Method method = Method::get) {
    Data data = get(to_host(1), SmpAttribute::port_info, 0, key).data;
    wire::set(data, info::port_state, 0);
    wire::set(data, info::physical_state, 0);
    return ask(at_host(0), directed(to_host(1), {method, SmpAttribute::port_info, 0, data, m_key}));
  }
};

TEST_F(MKeyTest, NoKeyNoProtection) {
  EXPECT_TRUE(ask_with(0, Method::set).ok());
  EXPECT_TRUE(ask_with(5, Method::set).ok());
}

TEST_F(MKeyTest, LevelZeroProtectsAgainstSet) {
  protect(0);
  EXPECT_EQ(ask_with(0).get(info::m_key), key);
  EXPECT_FALSE(ask_with(0, Method::set).came);
  EXPECT_TRUE(ask_with(key, Method::set).ok());
}

TEST_F(MKeyTest, LevelOneHidesTheKey) {
  protect(1);
  EXPECT_EQ(ask_with(0).get(info::m_key), 0U);
  EXPECT_EQ(ask_with(key).get(info::m_key), key);
  EXPECT_FALSE(ask_with(1, Method::set).came);
}

TEST_F(MKeyTest, LevelsTwoAndThreeProtectAgainstGet) {
  for (const u64 level : {2U, 3U}) {
    if (level == 3) {
      const std::vector<Change> changes = {{info::m_key_protect_bits, level}};
      ASSERT_TRUE(set_port(to_host(1), 0, changes, key).ok());
    } else {
      protect(level);
    }
    EXPECT_FALSE(ask_with(0).came);
    EXPECT_TRUE(ask_with(key).ok());
  }
}

TEST_F(MKeyTest, ViolationsAreCountedAndToldOf) {
  protect(2);
  EXPECT_FALSE(ask_with(0xbad).came);
  EXPECT_FALSE(ask_with(0xbad, Method::set).came);
  EXPECT_EQ(ask_with(key).get(info::m_key_violations), 2U);
  const auto found = traps(TrapNumber::bad_m_key);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(notice(found[0], wire::notice::lid), lid_of_host(1));
  EXPECT_EQ(notice(found[0], wire::notice::method), 1U);
  EXPECT_EQ(notice(found[0], wire::notice::attribute), 0x15U);
  EXPECT_EQ(notice(found[0], wire::notice::m_key), 0xbadU);
  EXPECT_EQ(notice(found[0], wire::notice::is_directed), 1U);
  EXPECT_EQ(notice(found[0], wire::notice::path_hops), 3U);
}

TEST_F(MKeyTest, TheLeaseEndsProtection) {
  protect(2, 10);
  (void)net_->on_time(100 * second);
  EXPECT_FALSE(ask_with(0).came);
  (void)net_->on_time(100 * second);
  (void)net_->on_time(109 * second);
  EXPECT_FALSE(ask(at_host(0), directed(to_host(1), {Method::get, SmpAttribute::node_info, 0, {}, 0})).came);
  (void)net_->on_time(110 * second);
  EXPECT_TRUE(ask(at_host(0), directed(to_host(1), {Method::get, SmpAttribute::node_info, 0, {}, 0})).ok());
  EXPECT_EQ(ask_with(key).get(info::m_key_protect_bits), 0U);
}

TEST_F(MKeyTest, TheRightKeyStopsTheLease) {
  protect(2, 10);
  (void)net_->on_time(100 * second);
  EXPECT_FALSE(get(to_host(1), SmpAttribute::node_info).came);
  (void)net_->on_time(101 * second);
  EXPECT_TRUE(get(to_host(1), SmpAttribute::node_info, 0, key).ok());
  (void)net_->on_time(200 * second);
  EXPECT_FALSE(get(to_host(1), SmpAttribute::node_info).came);
}

TEST_F(MKeyTest, ASwitchHasOneKeyForAllItsPorts) {
  const std::vector<Change> changes = {{info::m_key, key}, {info::m_key_protect_bits, 2}};
  ASSERT_TRUE(set_port({1, 2}, 0, changes).ok());
  EXPECT_FALSE(port_info({1, 2}, 3).came);
  EXPECT_FALSE(port_info({1, 3, 2}, 3).came) << "through whichever port";
  EXPECT_TRUE(get({1, 2}, SmpAttribute::port_info, 3, key).ok());
  EXPECT_TRUE(get({1, 2, 1}, SmpAttribute::node_info).ok()) << "what goes through isn't checked";
}

}  // namespace softib::net::test
