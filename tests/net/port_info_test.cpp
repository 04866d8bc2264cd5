// PortInfo: states, speeds and widths, addresses, and what Set refuses.
#include "lab.h"

namespace softib::net::test {

namespace info = wire::port_info;
using ipc::PortState;

class PortInfoTest : public Lab {
 protected:
  [[nodiscard]] PortState state(PortRef port) const { return net_->port(port).state; }
};

TEST_F(PortInfoTest, CabledPortsBeginInInit) {
  const Answer answer = port_info({1}, 1);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(info::port_state), 2U);
  EXPECT_EQ(answer.get(info::physical_state), 5U);
  EXPECT_EQ(answer.get(info::lid), 0U);
  EXPECT_EQ(answer.get(info::sm_lid), 0U);
  EXPECT_EQ(answer.get(info::local_port), 1U);
  EXPECT_EQ(answer.get(info::link_width_active), 2U);
  EXPECT_EQ(answer.get(info::link_speed_active), 4U) << "QDR to those that don't know of extended speeds";
  EXPECT_EQ(answer.get(info::link_speed_ext_active), 4U);
  EXPECT_EQ(answer.get(info::link_speed_ext_supported), 7U);
  EXPECT_EQ(answer.get(info::neighbor_mtu), 5U);
}

TEST_F(PortInfoTest, UncabledPortsAreDown) {
  const Answer answer = port_info({1}, 8);
  EXPECT_EQ(answer.get(info::port_state), 1U);
  EXPECT_EQ(answer.get(info::physical_state), 2U);
  EXPECT_EQ(port_info({1}, 9).status, bad_value);
}

TEST_F(PortInfoTest, ModifierZeroIsTheReceivingPortOfACa) {
  const Answer answer = port_info({1, 2, 1}, 0);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(info::local_port), 1U);
  EXPECT_EQ(port_info({1, 2, 1}, 2).status, bad_value);
}

TEST_F(PortInfoTest, StatesGoOneStepAtATime) {
  EXPECT_EQ(set_port({1}, 1, {{info::port_state, 4}}).status, bad_value) << "INIT to ACTIVE";
  EXPECT_EQ(set_port({1}, 1, {{info::port_state, 2}}).status, bad_value) << "INIT can't be asked for";
  EXPECT_EQ(set_port({1}, 1, {{info::port_state, 5}}).status, bad_value);
  EXPECT_TRUE(set_port({1}, 1, {{info::port_state, 3}}).ok());
  EXPECT_EQ(state({sw0, 1}), PortState::armed);
  EXPECT_TRUE(set_port({1}, 1, {{info::port_state, 3}}).ok()) << "it is there already";
  EXPECT_TRUE(set_port({1}, 1, {{info::port_state, 4}}).ok());
  EXPECT_EQ(state({sw0, 1}), PortState::active);
  EXPECT_EQ(set_port({1}, 1, {{info::port_state, 3}}).status, bad_value) << "no way back";
  EXPECT_EQ(set_port({1}, 8, {{info::port_state, 3}}).status, bad_value) << "no link";
  EXPECT_EQ(changed_, (std::vector<PortRef>{{sw0, 1}, {sw0, 1}}));
}

TEST_F(PortInfoTest, DownTrainsAnew) {
  bring_up();
  EXPECT_TRUE(set_port({1}, 2, {{info::port_state, 1}}).ok());
  EXPECT_EQ(state({sw0, 2}), PortState::init);
  EXPECT_EQ(state({sw1, 2}), PortState::init);
  EXPECT_EQ(net_->counters({sw0, 2}).of[static_cast<u32>(Cause::link_downed)], 0U);
  EXPECT_EQ(net_->counters({sw1, 2}).of[static_cast<u32>(Cause::link_downed)], 1U);
}

TEST_F(PortInfoTest, DisableAndEnable) {
  bring_up();
  EXPECT_TRUE(set_port({1}, 2, {{info::port_state, 1}, {info::physical_state, 3}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).physical, PhysicalState::disabled);
  EXPECT_EQ(state({sw1, 2}), PortState::down);
  EXPECT_EQ(net_->port({sw1, 2}).physical, PhysicalState::polling);
  EXPECT_FALSE(get({1, 2}, SmpAttribute::node_info).came);
  EXPECT_TRUE(set_port({1}, 2, {{info::port_state, 1}, {info::physical_state, 2}}).ok());
  EXPECT_EQ(state({sw0, 2}), PortState::init);
  EXPECT_EQ(state({sw1, 2}), PortState::init);
  EXPECT_EQ(net_->counters({sw1, 2}).of[static_cast<u32>(Cause::link_downed)], 1U);
  EXPECT_EQ(set_port({1}, 2, {{info::physical_state, 5}}).status, bad_value);
}

TEST_F(PortInfoTest, SpeedsHoldFromTheNextTraining) {
  const u32 with_extended = 2 | info::sm_supports_ext_speeds;
  EXPECT_TRUE(set_port({1}, with_extended, {{info::link_speed_ext_enabled, 3}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::hdr);
  EXPECT_TRUE(set_port({1}, 2, {{info::port_state, 1}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::edr);
  EXPECT_EQ(net_->port({sw1, 2}).speed, fabric::Speed::edr);
  EXPECT_EQ(port_info({1}, 2).get(info::link_speed_ext_active), 2U);
  EXPECT_EQ(port_info({1}, 2).get(info::link_speed_ext_enabled), 3U);
}

TEST_F(PortInfoTest, WithoutExtendedSpeedsItIsQdrOrLess) {
  const u32 with_extended = 2 | info::sm_supports_ext_speeds;
  const std::vector<Change> off = {{info::link_speed_ext_enabled, info::ext_speeds_off}, {info::port_state, 1}};
  ASSERT_TRUE(set_port({1}, with_extended, off).ok());
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::fdr10);
  const Answer fdr10 = get({1}, SmpAttribute::mlnx_ext_port_info, 2);
  EXPECT_EQ(fdr10.get(wire::mlnx_ext_port_info::link_speed_active), 1U);
  EXPECT_EQ(port_info({1}, 2).get(info::link_speed_active), 4U);
  EXPECT_EQ(port_info({1}, 2).get(info::link_speed_ext_enabled), info::ext_speeds_off);

  Data no_fdr10{};
  ASSERT_TRUE(set({1}, SmpAttribute::mlnx_ext_port_info, 2, no_fdr10).ok());
  EXPECT_EQ(get({1}, SmpAttribute::mlnx_ext_port_info, 2).get(wire::mlnx_ext_port_info::link_speed_enabled), 1U);
  wire::set(no_fdr10, wire::mlnx_ext_port_info::state_change_enable, 1);
  ASSERT_TRUE(set({1}, SmpAttribute::mlnx_ext_port_info, 2, no_fdr10).ok());
  ASSERT_TRUE(set_port({1}, 2, {{info::link_speed_enabled, 3}, {info::port_state, 1}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::ddr);
  ASSERT_TRUE(set_port({1}, 2, {{info::link_speed_enabled, 15}, {info::port_state, 1}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::qdr);
  const std::vector<Change> all = {{info::link_speed_ext_enabled, info::ext_speeds_all}, {info::port_state, 1}};
  ASSERT_TRUE(set_port({1}, with_extended, all).ok());
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::hdr);
}

TEST_F(PortInfoTest, ExtendedSpeedsNeedTheManagersWord) {
  EXPECT_TRUE(set_port({1}, 2, {{info::link_speed_ext_enabled, 1}}).ok());
  EXPECT_EQ(port_info({1}, 2).get(info::link_speed_ext_enabled), 7U);
}

TEST_F(PortInfoTest, Widths) {
  EXPECT_EQ(port_info({1}, 2).get(info::link_width_supported), 0x13U) << "1x, 2x, 4x";
  ASSERT_TRUE(set_port({1}, 2, {{info::link_width_enabled, 1}, {info::port_state, 1}}).ok());
  EXPECT_EQ(net_->port({sw1, 2}).width, fabric::Width::x1);
  EXPECT_EQ(set_port({1}, 2, {{info::link_width_enabled, 8}}).status, bad_value) << "12x";
  ASSERT_TRUE(set_port({1}, 2, {{info::link_width_enabled, 0xff}, {info::port_state, 1}}).ok());
  EXPECT_EQ(net_->port({sw1, 2}).width, fabric::Width::x4);
}

TEST_F(PortInfoTest, NothingInCommonIsNoLinkUntilThereIs) {
  ASSERT_TRUE(set_port({1}, 2, {{info::link_width_enabled, 1}}).ok());
  ASSERT_TRUE(set_port({1, 2}, 2, {{info::link_width_enabled, 2}}).ok());
  ASSERT_TRUE(set_port({1}, 2, {{info::port_state, 1}}).ok());
  EXPECT_EQ(state({sw0, 2}), PortState::down);
  EXPECT_EQ(state({sw1, 2}), PortState::down);
  ASSERT_TRUE(set_port({1}, 2, {{info::link_width_enabled, 3}}).ok());
  EXPECT_EQ(state({sw0, 2}), PortState::init);
}

TEST_F(PortInfoTest, Addresses) {
  const std::vector<Change> good = {{info::lid, 8},
                                    {info::lmc, 2},
                                    {info::sm_lid, 3},
                                    {info::sm_sl, 4},
                                    {info::gid_prefix, 0xfec0'0000'0000'0001},
                                    {info::subnet_timeout, 20}};
  ASSERT_TRUE(set_port({1, 2, 1}, 0, good).ok());
  const PortView view = net_->port(at_host(1));
  EXPECT_EQ(view.lid, 8);
  EXPECT_EQ(view.lmc, 2);
  EXPECT_EQ(view.sm_lid, 3);
  EXPECT_EQ(view.sm_sl, 4);
  EXPECT_EQ(view.gid_prefix, 0xfec0'0000'0000'0001U);
  EXPECT_EQ(changed_, std::vector<PortRef>{at_host(1)});
  EXPECT_EQ(set_port({1, 2, 1}, 0, {{info::lid, 0xc000}}).status, bad_value);
  EXPECT_EQ(set_port({1, 2, 1}, 0, {{info::lid, 0}}).status, bad_value) << "it has one";
  EXPECT_EQ(set_port({1, 2, 1}, 0, {{info::lid, 0xbfff}}).status, bad_value) << "4 LIDs don't fit";
  EXPECT_EQ(set_port({1, 2, 1}, 0, {{info::sm_lid, 0xffff}}).status, bad_value);
  EXPECT_EQ(net_->port(at_host(1)).lid, 8);
}

TEST_F(PortInfoTest, RefusedSetsChangeNothing) {
  EXPECT_EQ(set_port({1, 2, 1}, 0, {{info::lid, 8}, {info::port_state, 4}}).status, bad_value);
  EXPECT_EQ(net_->port(at_host(1)).lid, 0);
  EXPECT_EQ(set_port({1}, 2, {{info::neighbor_mtu, 6}}).status, bad_value);
  EXPECT_EQ(set_port({1}, 2, {{info::operational_vls, 5}}).status, bad_value);
  EXPECT_EQ(set_port({1}, 2, {{info::link_down_default_state, 3}}).status, bad_value);
  EXPECT_TRUE(changed_.empty());
}

TEST_F(PortInfoTest, SwitchPorts) {
  ASSERT_TRUE(set_port({1}, 0, {{info::lid, 30}, {info::port_state, 1}}).ok()) << "port 0 has no state to command";
  EXPECT_EQ(net_->port({sw0, 0}).lid, 30);
  EXPECT_EQ(state({sw0, 0}), PortState::active);
  EXPECT_EQ(set_port({1}, 0, {{info::lmc, 1}}).status, bad_value) << "not of a base port 0";
  ASSERT_TRUE(set_port({1}, 3, {{info::lid, 31}}).ok());
  EXPECT_EQ(net_->port({sw0, 3}).lid, 30) << "external ports have none of their own";
}

TEST_F(PortInfoTest, EnhancedPortZero) {
  net_->set_enhanced_port_0(sw0, true);
  EXPECT_EQ(get({1}, SmpAttribute::switch_info).get(wire::switch_info::enhanced_port_0), 1U);
  EXPECT_EQ(state({sw0, 0}), PortState::init);
  EXPECT_EQ(set_port({1}, 0, {{info::port_state, 4}}).status, bad_value);
  ASSERT_TRUE(set_port({1}, 0, {{info::port_state, 3}, {info::lid, 30}, {info::lmc, 1}}).ok());
  EXPECT_EQ(state({sw0, 0}), PortState::armed);
  EXPECT_EQ(net_->port({sw0, 0}).lmc, 1);
}

TEST_F(PortInfoTest, ReregisterIsPassedOnAndNotKept) {
  const Answer answer = set_port({1, 2, 1}, 0, {{info::client_reregister, 1}});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(info::client_reregister), 1U);
  EXPECT_EQ(reregistered_, std::vector<PortRef>{at_host(1)});
  EXPECT_EQ(port_info({1, 2, 1}, 0).get(info::client_reregister), 0U);
}

TEST_F(PortInfoTest, CapabilitiesFollowWhoListens) {
  net_->set_capabilities(at_host(0), wire::port_cap::is_sm, true);
  EXPECT_TRUE(port_info({}, 0).get(info::capability_mask) & wire::port_cap::is_sm);
  EXPECT_TRUE(net_->port(at_host(0)).capabilities & wire::port_cap::is_sm);
  net_->set_capabilities(at_host(0), wire::port_cap::is_sm, false);
  EXPECT_FALSE(port_info({}, 0).get(info::capability_mask) & wire::port_cap::is_sm);
}

TEST_F(PortInfoTest, MixedSpeedsTrainToTheSlowest) {
  fabric::Fabric fabric = triangle();
  for (const auto& [speed, field, value] : {std::tuple{fabric::Speed::sdr, info::link_speed_active, 1U},
                                            {fabric::Speed::qdr, info::link_speed_active, 4U},
                                            {fabric::Speed::fdr, info::link_speed_ext_active, 1U},
                                            {fabric::Speed::hdr, info::link_speed_ext_active, 4U}}) {
    fabric.hosts[0].hcas[0].ports[0].speed = fabric::Speed::xdr;
    fabric.cables[0].speed = speed;
    net_ = Network::create(fabric, *this);
    EXPECT_EQ(net_->port(at_host(0)).speed, speed);
    EXPECT_EQ(port_info({}, 0).get(field), value);
  }
}

TEST_F(PortInfoTest, Xdr) {
  fabric::Fabric fabric = triangle();
  fabric.hosts[0].hcas[0].ports[0].speed = fabric::Speed::xdr;
  fabric.switches[0].speed = fabric::Speed::xdr;
  net_ = Network::create(fabric, *this);
  const Answer answer = port_info({}, 0);
  EXPECT_EQ(answer.get(info::link_speed_active), 0U);
  EXPECT_EQ(answer.get(info::link_speed_ext_active), 0U);
  EXPECT_EQ(answer.get(info::link_speed_ext2_active), 1U);
  EXPECT_EQ(answer.get(info::link_speed_ext_supported), 15U);
}

}  // namespace softib::net::test
