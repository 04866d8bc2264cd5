#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fabric/fabric.h"
#include "fabric/sysfs.h"

namespace softib::fabric {
namespace {

using testing::HasSubstr;

const Port& port_of(const Fabric& fabric, u32 host, u32 hca = 0, u32 port = 0) {
  return fabric.hosts.at(host).hcas.at(hca).ports.at(port);
}

Fabric must_parse(std::string_view text, const Overrides& overrides = {}) {
  auto fabric = parse(text, "test.yaml", overrides);
  if (!fabric) throw std::runtime_error(fabric.error().text);
  return *fabric;
}

TEST(DefaultFabric, TwoHostsOneSwitch) {
  Fabric fabric = default_fabric();
  ASSERT_EQ(fabric.hosts.size(), 2U);
  EXPECT_EQ(fabric.hosts[0].name, "host0");
  EXPECT_EQ(fabric.hosts[1].name, "host1");
  EXPECT_EQ(fabric.hosts[1].hcas[0].name, "mlx5_0");
  ASSERT_EQ(fabric.switches.size(), 1U);
  EXPECT_EQ(fabric.cables.size(), 2U);
  EXPECT_EQ(guid_text(fabric.hosts[0].hcas[0].node_guid), "5254:00ff:fe00:0001");
  EXPECT_EQ(guid_text(fabric.hosts[1].hcas[0].node_guid), "5254:00ff:fe00:0011");
  EXPECT_EQ(fabric.switches[0].lid, 1);
  EXPECT_EQ(port_of(fabric, 0).lid, 2);
  EXPECT_EQ(port_of(fabric, 1).lid, 3);
  EXPECT_EQ(port_of(fabric, 1).sm_lid, 1);
  EXPECT_EQ(port_of(fabric, 0).subnet, port_of(fabric, 1).subnet);
  EXPECT_TRUE(port_of(fabric, 0).cabled);
  EXPECT_EQ(port_of(fabric, 0).link_speed, Speed::hdr);
  EXPECT_EQ(port_of(fabric, 0).pkeys, std::vector<u16>{0xffff});
  ASSERT_EQ(port_of(fabric, 0).gids.size(), 1U);
  EXPECT_EQ(gid_text(port_of(fabric, 0).gids[0].gid), "fe80:0000:0000:0000:5254:00ff:fe00:0001");
}

TEST(DefaultFabric, SameAsTheFileThatSaysTheSame) {
  EXPECT_EQ(default_fabric(), must_parse("hosts: 2"));
  EXPECT_EQ(default_fabric("lab", LinkLayer::ethernet), must_parse("{fabric: lab, link_layer: ethernet, hosts: 2}"));
}

TEST(Complete, FabricsHaveDifferentGuids) {
  std::set<u64> guids;
  for (const char* name : {"default", "lab", "lab2", "a", "b", "red", "blue"}) {
    Fabric fabric = default_fabric(name);
    EXPECT_TRUE(guids.insert(port_of(fabric, 0).guid).second) << name;
    EXPECT_TRUE(guids.insert(port_of(fabric, 1).guid).second) << name;
    EXPECT_EQ(fabric, default_fabric(name));
  }
}

TEST(Complete, AllGuidsDiffer) {
  Fabric fabric = must_parse(
      "{hosts: [{name: n, count: 20, hcas: [{ports: 2}, {ports: 2}]}],"
      " switches: [{ports: 80}, x]}");
  std::set<u64> guids;
  for (const Host& host : fabric.hosts)
    for (const Hca& hca : host.hcas) {
      for (const Port& port : hca.ports) EXPECT_TRUE(guids.insert(port.guid).second);
      EXPECT_EQ(hca.node_guid, hca.ports[0].guid);
    }
  for (const Switch& sw : fabric.switches) EXPECT_TRUE(guids.insert(sw.node_guid).second);
  EXPECT_EQ(guids.size(), 82U);
}

TEST(Complete, TwiceIsOnce) {
  Fabric fabric = must_parse("{hosts: 5, hcas: 3, link_layer: ethernet}");
  EXPECT_EQ(*complete(fabric), fabric);
}

TEST(Complete, LinkTrainsToWhatAllPartsCan) {
  Fabric fabric = must_parse(R"(
hosts:
  - {name: a, hcas: [{speed: NDR, mtu: 2048}]}
  - {name: b, hcas: [{speed: EDR, width: 12x}]}
  - {name: c}
  - {name: d, hcas: [{speed: SDR}]}
switches: [{name: sw, speed: HDR}]
cables:
  - [a/mlx5_0/1, sw/1]
  - [b/mlx5_0, sw/2]
  - {ends: [c/mlx5_0/1, sw/3], speed: FDR, width: 1x}
)");
  EXPECT_EQ(port_of(fabric, 0).link_speed, Speed::hdr);
  EXPECT_EQ(port_of(fabric, 0).link_mtu, Mtu::b2048);
  EXPECT_EQ(port_of(fabric, 1).link_speed, Speed::edr);
  EXPECT_EQ(port_of(fabric, 1).link_width, Width::x4);
  EXPECT_EQ(port_of(fabric, 1).link_mtu, Mtu::b4096);
  EXPECT_EQ(port_of(fabric, 2).link_speed, Speed::fdr);
  EXPECT_EQ(port_of(fabric, 2).link_width, Width::x1);
  EXPECT_FALSE(port_of(fabric, 3).cabled);
  EXPECT_EQ(port_of(fabric, 3).link_speed, Speed::sdr);
}

TEST(Complete, UncabledPortIsDownAndHasNoLid) {
  Fabric fabric = must_parse("{hosts: 2, cables: [[host0/mlx5_0/1, sw0/1]]}");
  const Port& port = port_of(fabric, 1);
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(port.sm_lid, 0);
  EXPECT_NE(port.subnet, port_of(fabric, 0).subnet);
  PortStatus status = initial_status(fabric, port);
  EXPECT_EQ(status.state, ipc::PortState::down);
  EXPECT_EQ(status.phys_state, PhysState::polling);
  EXPECT_EQ(initial_status(fabric, port_of(fabric, 0)).state, ipc::PortState::active);
}

TEST(Complete, SubnetsFollowTheCables) {
  Fabric fabric = must_parse(R"(
hosts: 6
switches: 3
cables:
  - [host0/mlx5_0/1, sw0/1]
  - [host1/mlx5_0/1, sw1/1]
  - [sw0/2, sw1/2]
  - [host2/mlx5_0/1, sw2/1]
  - [host3/mlx5_0/1, sw2/2]
  - [host4/mlx5_0/1, host5/mlx5_0/1]
)");
  EXPECT_EQ(port_of(fabric, 0).subnet, 1U);
  EXPECT_EQ(port_of(fabric, 1).subnet, 1U);
  EXPECT_EQ(port_of(fabric, 2).subnet, 2U);
  EXPECT_EQ(port_of(fabric, 3).subnet, 2U);
  EXPECT_EQ(port_of(fabric, 4).subnet, 3U);
  EXPECT_EQ(port_of(fabric, 5).subnet, 3U);
  EXPECT_EQ(port_of(fabric, 1).sm_lid, fabric.switches[0].lid);
  EXPECT_EQ(port_of(fabric, 3).sm_lid, fabric.switches[2].lid);
  EXPECT_EQ(port_of(fabric, 5).sm_lid, port_of(fabric, 4).lid) << "without a switch the first port manages";
}

TEST(Complete, TwoPortsOfAnHcaDoNotJoinSubnets) {
  Fabric fabric = must_parse(R"(
hosts: [{name: a, hcas: [{ports: 2}]}]
switches: 2
cables: [[a/mlx5_0/1, sw0/1], [a/mlx5_0/2, sw1/1]]
)");
  EXPECT_NE(port_of(fabric, 0, 0, 0).subnet, port_of(fabric, 0, 0, 1).subnet);
}

TEST(Complete, GivenLidsAreKeptAndPassedBy) {
  Fabric fabric = must_parse(R"(
hosts:
  - {name: a, hcas: [{ports: [{lid: 1}]}]}
  - {name: b}
  - {name: c, hcas: [{ports: [{lid: 0x3}]}]}
)");
  EXPECT_EQ(port_of(fabric, 0).lid, 1);
  EXPECT_EQ(port_of(fabric, 2).lid, 3);
  EXPECT_EQ(fabric.switches[0].lid, 2);
  EXPECT_EQ(port_of(fabric, 1).lid, 4);
}

TEST(Complete, EthernetHasGidsAndNoLids) {
  Fabric fabric = must_parse("{hosts: 2, hcas: 2, link_layer: ethernet}");
  const Port& port = port_of(fabric, 1, 1);
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(port.sm_lid, 0);
  ASSERT_EQ(port.gids.size(), 4U);
  EXPECT_EQ(port.gids[0].type, GidType::roce_v1);
  EXPECT_EQ(port.gids[1].type, GidType::roce_v2);
  EXPECT_EQ(port.gids[0].gid, port.gids[1].gid);
  EXPECT_EQ(gid_text(port.gids[3].gid), "0000:0000:0000:0000:0000:ffff:0a01:0002");
  EXPECT_EQ(port.gids[3].type, GidType::roce_v2);
  // The MAC 52:54:00:00:00:31 with the universal/local bit inverted.
  EXPECT_EQ(gid_text(port.gids[0].gid), "fe80:0000:0000:0000:5054:00ff:fe00:0031");
  EXPECT_EQ(initial_status(fabric, port).state, ipc::PortState::active);
}

TEST(Complete, WithoutSubnetManagerPortsStayInit) {
  Fabric fabric = must_parse("{hosts: 2, sm: none}");
  EXPECT_EQ(port_of(fabric, 0).lid, 0);
  PortStatus status = initial_status(fabric, port_of(fabric, 0));
  EXPECT_EQ(status.state, ipc::PortState::init);
  EXPECT_EQ(status.phys_state, PhysState::link_up);
}

TEST(Complete, RefusesWhatTheParserCannotMake) {
  Fabric fabric = default_fabric();
  fabric.cables[0].a.port = 2;
  EXPECT_THAT(complete(fabric).error().text, HasSubstr("does not exist"));
  fabric = default_fabric();
  fabric.cables[0].b.node = 7;
  EXPECT_THAT(complete(fabric).error().text, HasSubstr("does not exist"));
  fabric = default_fabric();
  fabric.hosts[0].hcas[0].ports.clear();
  EXPECT_THAT(complete(fabric).error().text, HasSubstr("1 to 4 ports"));
  fabric = default_fabric();
  fabric.hosts[0].hcas[0].model = "abacus";
  EXPECT_THAT(complete(fabric).error().text, HasSubstr("abacus"));
  fabric = default_fabric();
  fabric.name = "../x";
  EXPECT_FALSE(complete(fabric));
  EXPECT_FALSE(complete(Fabric{}));
}

TEST(Complete, AThousandHostsWithEightRails) {
  std::string text = "hosts: 1024\nhcas: 8\nswitches: []\n";
  Fabric fabric = must_parse(text);
  EXPECT_EQ(fabric.hosts.size(), 1024U);
  EXPECT_EQ(fabric.hosts[1023].hcas[7].name, "mlx5_7");
  EXPECT_EQ(must_parse(to_yaml(fabric)), fabric);
}

TEST(Complete, LmcTakesLidsInARow) {
  Fabric fabric = must_parse(R"(
hosts:
  - {name: a, hcas: [{ports: [{lmc: 2}]}]}
  - {name: b}
  - {name: c, hcas: [{ports: [{lid: 3}]}]}
switches: [{name: s, lmc: 1, enhanced_port0: true}]
)");
  EXPECT_EQ(fabric.switches[0].lid, 4) << "2 and 3 are not both free";
  EXPECT_EQ(port_of(fabric, 0).lid, 8);
  EXPECT_EQ(port_of(fabric, 1).lid, 1);
  EXPECT_EQ(initial_status(fabric, port_of(fabric, 0)).lmc, 2);
  EXPECT_EQ(*complete(fabric), fabric);
  EXPECT_EQ(must_parse(to_yaml(fabric)), fabric);
}

TEST(Complete, IdentityOfNodesIsKept) {
  Fabric fabric = must_parse(R"(
hosts:
  - {name: a, hcas: [{description: "node \"17\" \\ HCA-1", vendor_id: 0x2c9, device_id: 0x1003}]}
  - {name: sharp, kind: aggregation}
switches:
  - {name: s, node_guid: 16, port_guid: 17, system_guid: 19, enhanced_port0: true, description: "MF0;s:MQM8700/U1",
     vendor_id: 0x2c9, device_id: 0xd2f0}
  - plain
)");
  EXPECT_EQ(node_description(fabric.hosts[0], fabric.hosts[0].hcas[0]), "node \"17\" \\ HCA-1");
  EXPECT_EQ(node_description(fabric.hosts[1], fabric.hosts[1].hcas[0]), "Mellanox Technologies Aggregation Node");
  EXPECT_EQ(fabric.hosts[1].kind, HostKind::aggregation);
  EXPECT_EQ(fabric.switches[0].port_guid, 17U);
  EXPECT_EQ(fabric.switches[0].device_id, 0xd2f0U);
  EXPECT_EQ(fabric.switches[1].port_guid, fabric.switches[1].node_guid);
  EXPECT_EQ(fabric.switches[1].system_guid, fabric.switches[1].node_guid);
  EXPECT_EQ(node_description(fabric.switches[1]), "plain");
  EXPECT_EQ(must_parse(to_yaml(fabric)), fabric);
}

TEST(Names, Fabric) {
  for (const char* good : {"default", "lab-2", "a", "A_b.c", "0"}) EXPECT_TRUE(valid_fabric_name(good)) << good;
  for (const char* bad : {"", ".", "..", ".hidden", "-x", "a/b", "a b", "ü", "a\n"})
    EXPECT_FALSE(valid_fabric_name(bad)) << bad;
  EXPECT_TRUE(valid_fabric_name(std::string(63, 'x')));
  EXPECT_FALSE(valid_fabric_name(std::string(64, 'x')));
}

TEST(Names, Host) {
  for (const char* good : {"host0", "node-1.rack2.example", "7", "A"}) EXPECT_TRUE(valid_host_name(good)) << good;
  for (const char* bad : {"", "-a", "a-", "a..b", ".a", "a.", "a_b", "a/b", "a b"})
    EXPECT_FALSE(valid_host_name(bad)) << bad;
  EXPECT_FALSE(valid_host_name(std::string(64, 'x')));
}

}  // namespace
}  // namespace softib::fabric
