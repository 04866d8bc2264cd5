// Attributes of nodes and their tables: Get and Set by the rules.
#include "lab.h"

namespace softib::net::test {

using SmaTest = Lab;

TEST_F(SmaTest, NodeInfoOfASwitch) {
  const Answer answer = get({1}, SmpAttribute::node_info);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::base_version), 1U);
  EXPECT_EQ(answer.get(wire::node_info::class_version), 1U);
  EXPECT_EQ(answer.get(wire::node_info::node_type), 2U);
  EXPECT_EQ(answer.get(wire::node_info::num_ports), 8U);
  EXPECT_EQ(answer.get(wire::node_info::node_guid), net_->node_guid(sw0));
  EXPECT_EQ(answer.get(wire::node_info::port_guid), net_->node_guid(sw0));
  EXPECT_EQ(answer.get(wire::node_info::vendor_id), 0x2c9U);
  EXPECT_EQ(answer.get(wire::node_info::device_id), 0xd2f0U) << "of the HDR generation";
}

// A fabric file, an imported one above all, says who its nodes are.
struct NamedNodes : Lab {
  static fabric::Fabric named() {
    fabric::Fabric fabric = triangle();
    fabric::Switch& sw = fabric.switches[0];
    sw.description = "MF0;rack 7:MQM8700/U1";
    sw.vendor_id = 0x66a;
    sw.device_id = 0xb924;
    sw.system_guid = 0x1234;
    sw.port_guid = 0x1235;
    sw.enhanced_port0 = true;
    fabric::Hca& hca = fabric.hosts[0].hcas[0];
    hca.vendor_id = 0x1175;
    hca.device_id = 0x10;
    return fabric;
  }
  NamedNodes() : Lab(named()) {}
};

TEST_F(NamedNodes, AreAsTheFileNamesThem) {
  const Answer info = get({1}, SmpAttribute::node_info);
  EXPECT_EQ(info.get(wire::node_info::vendor_id), 0x66aU);
  EXPECT_EQ(info.get(wire::node_info::device_id), 0xb924U);
  EXPECT_EQ(info.get(wire::node_info::system_guid), 0x1234U);
  EXPECT_EQ(info.get(wire::node_info::port_guid), 0x1235U);
  EXPECT_EQ(info.get(wire::node_info::node_guid), net_->node_guid(sw0));
  EXPECT_EQ(get({1}, SmpAttribute::switch_info).get(wire::switch_info::enhanced_port_0), 1U);
  EXPECT_STREQ(reinterpret_cast<const char*>(get({1}, SmpAttribute::node_description).data.data()),
               "MF0;rack 7:MQM8700/U1");
  const Answer hca = get({}, SmpAttribute::node_info);
  EXPECT_EQ(hca.get(wire::node_info::vendor_id), 0x1175U);
  EXPECT_EQ(hca.get(wire::node_info::device_id), 0x10U);
}

TEST_F(SmaTest, NodeInfoOfAnHca) {
  const Answer answer = get({1, 2, 1}, SmpAttribute::node_info);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::node_info::node_type), 1U);
  EXPECT_EQ(answer.get(wire::node_info::num_ports), 1U);
  EXPECT_EQ(answer.get(wire::node_info::port_guid), net_->port(at_host(1)).guid);
  EXPECT_EQ(answer.get(wire::node_info::partition_cap), 32U);
}

TEST_F(SmaTest, NodeDescription) {
  const Answer hca = get({1, 2, 1}, SmpAttribute::node_description);
  EXPECT_STREQ(reinterpret_cast<const char*>(hca.data.data()), "host1 mlx5_0");
  net_->set_description(host1, std::string(70, 'x'));
  const Answer longest = get({1, 2, 1}, SmpAttribute::node_description);
  EXPECT_EQ(std::string(longest.data.begin(), longest.data.end()), std::string(64, 'x'));
  EXPECT_EQ(set({1}, SmpAttribute::node_description, 0, {}).status, bad_attribute);
}

TEST_F(SmaTest, SwitchInfoKeepsWhatItMayAndNoMore) {
  Data data{};
  wire::set(data, wire::switch_info::linear_cap, 1);
  wire::set(data, wire::switch_info::linear_top, 100);
  wire::set(data, wire::switch_info::life_time, 18);
  wire::set(data, wire::switch_info::default_port, 5);
  const Answer answer = set({1}, SmpAttribute::switch_info, 0, data);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::switch_info::linear_cap), 0xc000U);
  EXPECT_EQ(answer.get(wire::switch_info::linear_top), 100U);
  EXPECT_EQ(answer.get(wire::switch_info::life_time), 18U);
  EXPECT_EQ(answer.get(wire::switch_info::default_port), 5U);
  EXPECT_EQ(answer.get(wire::switch_info::enhanced_port_0), 0U);
  wire::set(data, wire::switch_info::linear_top, 0xc000);
  EXPECT_EQ(set({1}, SmpAttribute::switch_info, 0, data).status, bad_value);
  EXPECT_EQ(get({}, SmpAttribute::switch_info).status, bad_attribute) << "a CA is no switch";
}

TEST_F(SmaTest, PortStateChangeIsClearedByWritingOne) {
  EXPECT_EQ(get({1}, SmpAttribute::switch_info).get(wire::switch_info::port_state_change), 1U) << "just powered up";
  Data data{};
  EXPECT_EQ(set({1}, SmpAttribute::switch_info, 0, data).get(wire::switch_info::port_state_change), 1U);
  wire::set(data, wire::switch_info::port_state_change, 1);
  EXPECT_EQ(set({1}, SmpAttribute::switch_info, 0, data).get(wire::switch_info::port_state_change), 0U);
  net_->cut({sw1, 3});
  EXPECT_EQ(get({1}, SmpAttribute::switch_info).get(wire::switch_info::port_state_change), 0U);
  EXPECT_EQ(get({1, 2}, SmpAttribute::switch_info).get(wire::switch_info::port_state_change), 1U);
}

TEST_F(SmaTest, GuidInfoKeepsTheFirst) {
  const u64 own = net_->port(at_host(1)).guid;
  Data data{};
  wire::set(data, wire::guid_info::guid(0), 1);
  wire::set(data, wire::guid_info::guid(3), 0x1234);
  const Answer answer = set({1, 2, 1}, SmpAttribute::guid_info, 0, data);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.get(wire::guid_info::guid(0)), own);
  EXPECT_EQ(answer.get(wire::guid_info::guid(3)), 0x1234U);
  EXPECT_EQ(net_->port(at_host(1)).guids[3], 0x1234U);
  EXPECT_EQ(changed_, std::vector<PortRef>{at_host(1)});
  EXPECT_TRUE(get({1, 2, 1}, SmpAttribute::guid_info, 1).ok());
  EXPECT_EQ(get({1, 2, 1}, SmpAttribute::guid_info, 2).status, bad_value) << "past GUIDCap";
  EXPECT_EQ(get({1}, SmpAttribute::guid_info).get(wire::guid_info::guid(0)), net_->node_guid(sw0));
}

TEST_F(SmaTest, PkeyTableOfAnHca) {
  EXPECT_EQ(get({1, 2, 1}, SmpAttribute::pkey_table).get(wire::pkey_table::key(0)), 0xffffU);
  Data data{};
  wire::set(data, wire::pkey_table::key(0), 0xffff);
  wire::set(data, wire::pkey_table::key(31), 0x8001);
  ASSERT_TRUE(set({1, 2, 1}, SmpAttribute::pkey_table, 0, data).ok());
  EXPECT_EQ(net_->port(at_host(1)).pkeys[31], 0x8001);
  EXPECT_EQ(changed_, std::vector<PortRef>{at_host(1)});
  EXPECT_EQ(get({1, 2, 1}, SmpAttribute::pkey_table, 1).status, bad_value) << "past PartitionCap";
}

TEST_F(SmaTest, PkeyTablesOfASwitchArePerPort) {
  Data data{};
  wire::set(data, wire::pkey_table::key(1), 0x8007);
  ASSERT_TRUE(set({1}, SmpAttribute::pkey_table, 3U << 16, data).ok());
  EXPECT_EQ(get({1}, SmpAttribute::pkey_table, 3U << 16).get(wire::pkey_table::key(1)), 0x8007U);
  EXPECT_EQ(get({1}, SmpAttribute::pkey_table, 2U << 16).get(wire::pkey_table::key(1)), 0U);
  EXPECT_EQ(get({1}, SmpAttribute::pkey_table, 9U << 16).status, bad_value);
}

TEST_F(SmaTest, SlToVl) {
  const Answer first = get({1}, SmpAttribute::sl_to_vl, 1 << 8 | 2);
  EXPECT_EQ(first.get(wire::sl_to_vl::vl(3)), 3U);
  EXPECT_EQ(first.get(wire::sl_to_vl::vl(9)), 1U) << "eight VLs";
  Data data{};
  for (u32 sl = 0; sl < wire::sl_to_vl::levels; ++sl) wire::set(data, wire::sl_to_vl::vl(sl), sl == 5 ? 15 : 0);
  ASSERT_TRUE(set({1}, SmpAttribute::sl_to_vl, 1 << 8 | 2, data).ok());
  EXPECT_EQ(get({1}, SmpAttribute::sl_to_vl, 1 << 8 | 2).get(wire::sl_to_vl::vl(5)), 15U);
  EXPECT_EQ(get({1}, SmpAttribute::sl_to_vl, 2 << 8 | 1).get(wire::sl_to_vl::vl(5)), 5U);
  EXPECT_EQ(rerouted_, std::vector<u32>{sw0});
  wire::set(data, wire::sl_to_vl::vl(0), 9);
  EXPECT_EQ(set({1}, SmpAttribute::sl_to_vl, 1 << 8 | 2, data).status, bad_value) << "no such VL";
  EXPECT_EQ(get({1}, SmpAttribute::sl_to_vl, 1 << 8 | 9).status, bad_value) << "no such port";
  EXPECT_TRUE(get({}, SmpAttribute::sl_to_vl).ok());
}

TEST_F(SmaTest, VlArbitration) {
  Data data{};
  wire::set(data, wire::vl_arbitration::vl(2), 5);
  wire::set(data, wire::vl_arbitration::weight(2), 77);
  ASSERT_TRUE(set({1}, SmpAttribute::vl_arbitration, 3U << 16 | 2, data).ok());
  EXPECT_EQ(get({1}, SmpAttribute::vl_arbitration, 3U << 16 | 2).get(wire::vl_arbitration::weight(2)), 77U);
  EXPECT_EQ(get({1}, SmpAttribute::vl_arbitration, 1U << 16 | 2).get(wire::vl_arbitration::weight(2)), 1U);
  EXPECT_EQ(get({1}, SmpAttribute::vl_arbitration, 3U << 16 | 1).get(wire::vl_arbitration::weight(2)), 0U);
  for (const u32 block : {0U, 2U, 4U, 5U})
    EXPECT_EQ(get({1}, SmpAttribute::vl_arbitration, block << 16 | 2).status, bad_value) << block;
  EXPECT_EQ(get({1}, SmpAttribute::vl_arbitration, 1U << 16 | 9).status, bad_value);
}

TEST_F(SmaTest, LinearForwardingBlocks) {
  EXPECT_EQ(get({1}, SmpAttribute::linear_forwarding, 767).data[63], wire::linear_forwarding::no_port);
  EXPECT_EQ(get({1}, SmpAttribute::linear_forwarding, 768).status, bad_value);
  EXPECT_EQ(get({}, SmpAttribute::linear_forwarding).status, bad_attribute);
  Data data;
  data.fill(wire::linear_forwarding::no_port);
  ASSERT_TRUE(set({1}, SmpAttribute::linear_forwarding, 5, data).ok());
  EXPECT_TRUE(rerouted_.empty()) << "it held that before";
  data[7] = 3;
  ASSERT_TRUE(set({1}, SmpAttribute::linear_forwarding, 5, data).ok());
  ASSERT_TRUE(set({1}, SmpAttribute::linear_forwarding, 5, data).ok());
  EXPECT_EQ(rerouted_, std::vector<u32>{sw0});
  EXPECT_EQ(get({1}, SmpAttribute::linear_forwarding, 5).data, data);
  EXPECT_EQ(get({1}, SmpAttribute::linear_forwarding, 4).data[7], wire::linear_forwarding::no_port);
}

TEST_F(SmaTest, MulticastForwardingBlocks) {
  Data data{};
  wire::set(data, wire::multicast_forwarding::mask(1), 0x000e);
  ASSERT_TRUE(set({1}, SmpAttribute::multicast_forwarding, 2, data).ok());
  EXPECT_EQ(get({1}, SmpAttribute::multicast_forwarding, 2).data, data);
  EXPECT_EQ(get({1}, SmpAttribute::multicast_forwarding, 0).data, Data{});
  EXPECT_EQ(get({1}, SmpAttribute::multicast_forwarding, 1U << 28).status, bad_value) << "8 ports: one position";
  EXPECT_EQ(get({1}, SmpAttribute::multicast_forwarding, 128).status, bad_value);
}

TEST_F(SmaTest, LedAndVendorAttributes) {
  Data data{};
  wire::set(data, wire::led_info::on, 1);
  ASSERT_TRUE(set({}, SmpAttribute::led_info, 0, data).ok());
  EXPECT_EQ(get({}, SmpAttribute::led_info).get(wire::led_info::on), 1U);
  EXPECT_TRUE(get({}, SmpAttribute::vendor_diag).ok());
  const Answer fdr10 = get({1}, SmpAttribute::mlnx_ext_port_info, 1);
  EXPECT_EQ(fdr10.get(wire::mlnx_ext_port_info::link_speed_supported), 1U);
  EXPECT_EQ(fdr10.get(wire::mlnx_ext_port_info::link_speed_active), 0U) << "HDR is faster";
}

}  // namespace softib::net::test
