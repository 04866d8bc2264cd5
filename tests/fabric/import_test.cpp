// ibnetdiscover's form, in and out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cables.h"
#include "fabric/topo/export.h"
#include "fabric/topo/generate.h"
#include "fabric/topo/import.h"
#include "fabric/topo/node_names.h"
#include "fabric/topo/sort.h"
#include "files.h"

namespace softib::fabric::topo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Imported must_import(std::string_view text) {
  auto imported = import_ibnetdiscover(text, "dump");
  if (!imported) throw std::runtime_error(imported.error().text);
  return *imported;
}

std::vector<std::string> sorted_cables(const Fabric& fabric) {
  std::vector<std::string> result = test::cables_of(fabric);
  std::sort(result.begin(), result.end());
  return result;
}

// -- a dump with everything that trips readers up

class Traps : public testing::Test {
 protected:
  const Imported imported = must_import(test::recorded(SOFTIB_FABRIC_DATA, "traps.ibnetdiscover"));
  const Fabric& fabric = imported.fabric;

  const Hca& hca(std::string_view host, u32 index = 0) const {
    return fabric.hosts.at(find_host(fabric, host).value()).hcas.at(index);
  }
};

TEST_F(Traps, HostsAreGroupedAndNamed) {
  std::vector<std::string> names;
  for (const Host& host : fabric.hosts) names.push_back(host.name);
  EXPECT_THAT(names, ElementsAre("node-2c903000a1b2f", "node-18-big", "node17", "node19", "MF0-leaf-1-MQM8700-U1-an"));
  ASSERT_EQ(fabric.hosts[2].hcas.size(), 2U) << "two records, one host";
  EXPECT_EQ(hca("node17", 0).name, "mlx5_0");
  EXPECT_EQ(hca("node17", 1).name, "mlx5_1");
  EXPECT_EQ(hca("node-18-big").name, "mlx5_0") << "HCA-1 is the first";
}

TEST_F(Traps, WhatNodesSayOfThemselvesIsKept) {
  EXPECT_EQ(hca("node17").description, "") << "as it would be by itself";
  EXPECT_EQ(node_description(fabric.hosts[2], hca("node17", 1)), "node17 mlx5_1");
  EXPECT_EQ(hca("node-18-big").description, "node 18 \"big\" HCA-1");
  EXPECT_EQ(hca("node-2c903000a1b2f").description, "MT25408 ConnectX Mellanox Technologies");
  EXPECT_EQ(hca("node17").model, "connectx-6");
  EXPECT_EQ(hca("node-2c903000a1b2f").model, "softib");
  EXPECT_EQ(hca("node-2c903000a1b2f").vendor_id, 0x2c9U);
  EXPECT_EQ(hca("node-2c903000a1b2f").device_id, 0x673cU);
  EXPECT_EQ(fabric.switches[0].description, "MF0;leaf 1:MQM8700/U1");
}

TEST_F(Traps, GuidsWithoutLeadingZeros) {
  EXPECT_EQ(fabric.switches[0].node_guid, 0x043f720300f62ee6U);
  EXPECT_EQ(fabric.switches[1].node_guid, 0x0002c90200404142U);
  EXPECT_EQ(fabric.switches[1].system_guid, 0x0002c90200404143U);
  EXPECT_EQ(hca("node-2c903000a1b2f").node_guid, 0x0002c903000a1b2cU);
  EXPECT_EQ(hca("node-2c903000a1b2f").ports[1].guid, 0x0002c903000a1b2eU);
}

TEST_F(Traps, PortZeroLidsAndLmc) {
  EXPECT_TRUE(fabric.switches[0].enhanced_port0);
  EXPECT_FALSE(fabric.switches[1].enhanced_port0);
  EXPECT_EQ(fabric.switches[0].lid, 3);
  EXPECT_EQ(hca("node17", 1).ports[0].lid, 6);
  EXPECT_EQ(hca("node17", 1).ports[0].lmc, 1);
  EXPECT_EQ(hca("node-18-big").ports[0].lid, 10);
}

TEST_F(Traps, UnlinkedPorts) {
  EXPECT_EQ(fabric.switches[0].ports, 41U);
  EXPECT_FALSE(hca("node19").ports[0].cabled);
  EXPECT_EQ(hca("node19").ports[0].lid, 0);
  ASSERT_EQ(hca("node-18-big").ports.size(), 2U);
  EXPECT_TRUE(hca("node-18-big").ports[0].cabled);
  EXPECT_FALSE(hca("node-18-big").ports[1].cabled);
  EXPECT_FALSE(hca("node-2c903000a1b2f").ports[0].cabled);
}

TEST_F(Traps, AggregationNodesAreNoServers) {
  for (const Host& host : fabric.hosts)
    EXPECT_EQ(host.kind == HostKind::aggregation, host.name == "MF0-leaf-1-MQM8700-U1-an");
  EXPECT_EQ(hca("MF0-leaf-1-MQM8700-U1-an").ports[0].lid, 8);
}

TEST_F(Traps, Cables) {
  EXPECT_THAT(sorted_cables(fabric),
              ElementsAre("MF0-leaf-1-MQM8700-U1-an/mlx5_0/1 - MF0-leaf-1-MQM8700-U1/41 4xHDR",
                          "MF0-leaf-1-MQM8700-U1/39 - spine/36 4xQDR", "MF0-leaf-1-MQM8700-U1/40 - spine/35 1xSDR",
                          "node-18-big/mlx5_0/1 - MF0-leaf-1-MQM8700-U1/3 2xHDR",
                          "node-2c903000a1b2f/mlx5_0/2 - MF0-leaf-1-MQM8700-U1/4 4xFDR10",
                          "node17/mlx5_0/1 - MF0-leaf-1-MQM8700-U1/1 4xHDR",
                          "node17/mlx5_1/1 - MF0-leaf-1-MQM8700-U1/2 4xHDR"));
}

TEST_F(Traps, RoutersAreLeftOutAndThatIsSaid) {
  EXPECT_THAT(
      imported.warnings,
      ElementsAre("dump:73: router 'ib router' and its links (1) are left out: there are no routers in SoftIB"));
}

TEST_F(Traps, SurvivesYaml) { EXPECT_EQ(*parse(to_yaml(fabric), "again"), fabric); }

TEST_F(Traps, ComesBackFromItsOwnExport) {
  Imported again = must_import(to_ibnetdiscover(fabric));
  EXPECT_THAT(again.warnings, ElementsAre());
  EXPECT_EQ(to_ibnetdiscover(again.fabric), to_ibnetdiscover(fabric));
  EXPECT_EQ(sorted_cables(again.fabric), sorted_cables(fabric));
}

// -- other ways to write the same

constexpr const char* small =
    "switchguid=0x10(10)\nSwitch\t4 \"S-0000000000000010\"\t\t# \"sw\" enhanced port 0 lid 1 lmc 0\n"
    "[1]\t\"H-0000000000000020\"[1](21) \t\t# \"a mlx5_0\" lid 2 4xEDR\n\n"
    "caguid=0x20\nCa\t1 \"H-0000000000000020\"\t\t# \"a mlx5_0\"\n"
    "[1](21) \t\"S-0000000000000010\"[1]\t\t# lid 2 lmc 0 \"sw\" lid 1 4xEDR\n";

TEST(Ibnetdiscover, FullAndGroupedOutput) {
  // -f appends s=, w= and v=; -g has chassis lines and external port numbers.
  Imported imported = must_import(
      "\nChassis 1 (guid 0x2c90300)\n\n# Spine Nodes\nvendid=0x2c9\ndevid=0xbd36\nsysimgguid=0x2c90300\t\t# Chassis 1\n"
      "switchguid=0x10(10)\t# IS5100 spine 1\n"
      "Switch\t4 \"S-0000000000000010\"\t\t# \"sw\" enhanced port 0 lid 1 lmc 0\n"
      "[1][ext 17]\t\"H-0000000000000020\"[1][ext 1](21) \t\t# \"a mlx5_0\" lid 2 4xEDR s=0 w=2 v=4\n"
      "\nNon-Chassis Nodes\n\ncaguid=0x20\nCa\t1 \"H-0000000000000020\"\t\t# \"a mlx5_0\" (scp)\n"
      "[1](21) \t\"S-0000000000000010\"[1][ext 17]\t\t# lid 2 lmc 0 \"sw\" lid 1 4xEDR s=0 w=2 v=4\n");
  EXPECT_THAT(imported.warnings, ElementsAre());
  EXPECT_THAT(sorted_cables(imported.fabric), ElementsAre("a/mlx5_0/1 - sw/1 4xEDR"));
}

TEST(Ibnetdiscover, CarriageReturnsAndOldDescriptions) {
  std::string text = small;
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, "\r");
  EXPECT_EQ(must_import(text).fabric, must_import(small).fabric);
  Imported old = must_import(
      "Switch  4 \"S-10\"   # SW-6IB4 Voltaire port 0 lid 4\n[1] \"H-20\"[1]\n\n"
      "Ca 1 \"H-20\"  # \"a HCA-1\"\n[1] \"S-10\"[1]  # lid 2 lmc 0\n");
  EXPECT_EQ(old.fabric.switches[0].name, "SW-6IB4-Voltaire");
  EXPECT_EQ(old.fabric.switches[0].lid, 4);
}

TEST(Ibnetdiscover, HostsOfTheSameNameStayApart) {
  std::string text = "switchguid=0x10(10)\nSwitch\t4 \"S-0000000000000010\"\t\t# \"sw\" base port 0 lid 1 lmc 0\n";
  for (int i = 1; i <= 3; ++i)
    text += "[" + std::to_string(i) + "]\t\"H-000000000000002" + std::to_string(i) + "\"[1](3" + std::to_string(i) +
            ") \t\t# \"localhost mlx5_0\" lid 0 4xEDR\n";
  for (int i = 1; i <= 3; ++i)
    text += "\nCa\t1 \"H-000000000000002" + std::to_string(i) + "\"\t\t# \"localhost mlx5_0\"\n[1](3" +
            std::to_string(i) + ") \t\"S-0000000000000010\"[" + std::to_string(i) +
            "]\t\t# lid 65535 lmc 0 \"sw\" lid 1 4xEDR\n";
  Imported imported = must_import(text);
  ASSERT_EQ(imported.fabric.hosts.size(), 3U);
  EXPECT_EQ(imported.fabric.hosts[2].name, "localhost-3");
  EXPECT_EQ(imported.fabric.hosts[2].hcas[0].description, "localhost mlx5_0");
  EXPECT_THAT(imported.warnings, testing::Contains(HasSubstr("host 'localhost' has an HCA 'mlx5_0' already")));
  EXPECT_THAT(imported.warnings, testing::Contains(HasSubstr("LID 65535")));
}

TEST(Ibnetdiscover, LettersThatAreNotAsciiAreTold) {
  std::string text = small;
  const size_t record = text.find("# \"a mlx5_0\"\n");
  text.replace(record, 12, "# \"a mlx5_0 b\xc3\xbcro\"");
  EXPECT_THAT(must_import(text).warnings, ElementsAre(HasSubstr("not ASCII")));
}

TEST(Ibnetdiscover, APortWithoutALinkIsLikeItsNeighbour) {
  std::string text = small;
  text.replace(text.find("Ca\t1"), 4, "Ca\t2");
  const Fabric fabric = must_import(text).fabric;
  ASSERT_EQ(fabric.hosts[0].hcas[0].ports.size(), 2U);
  EXPECT_EQ(fabric.hosts[0].hcas[0].ports[1].speed, Speed::edr);
}

TEST(Ibnetdiscover, WhatIsNotInTheFile) {
  std::string text = small;
  text.insert(text.find("\n\n"), "\n[2]\t\"S-0000000000000099\"[7]\t\t# \"gone\" lid 9 4xEDR");
  text = "ibwarn: [17] query_smp timed out\n" + text;
  Imported imported = must_import(text);
  EXPECT_THAT(imported.warnings,
              ElementsAre("dump:1: this line is none of ibnetdiscover's and is left out: 'ibwarn: [17] query_smp timed "
                          "out'",
                          "dump:5: 'S-0000000000000099' is not in this file; the cable to it is left out"));
  EXPECT_EQ(imported.fabric.cables.size(), 1U);
}

struct BadDump {
  const char* name;
  const char* text;
  const char* error;
};

void PrintTo(const BadDump& dump, std::ostream* out) { *out << dump.name; }

class BadDumps : public testing::TestWithParam<BadDump> {};

TEST_P(BadDumps, NamesLineAndCause) {
  auto imported = import_ibnetdiscover(GetParam().text, "dump");
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().text, GetParam().error);
}

const BadDump bad_dumps[] = {
    {"empty", "", "dump: there is no Switch, Ca or Rt record in it"},
    {"no_hosts", "Switch\t4 \"S-10\"\t\t# \"sw\" base port 0 lid 1 lmc 0\n",
     "dump: there is no Ca record of a host in it"},
    {"orphan_port", "[1] \"S-10\"[1]\n", "dump:1: a port line belongs behind the record of its node"},
    {"no_ports", "Switch x \"S-10\"\n", "dump:1: a record begins with its number of ports and its id in quotes"},
    {"no_id", "Switch 4 S-10\n", "dump:1: a record begins with its number of ports and its id in quotes"},
    {"many_ports", "Switch 255 \"S-10\"\n", "dump:1: a node has 1 to 254 ports, not 255"},
    {"bad_id", "Switch 4 \"leaf\"\n", "dump:1: 'leaf' is no node id such as S-0002c90300001234"},
    {"other_guid", "switchguid=0x11(11)\nSwitch 4 \"S-10\"\n",
     "dump:2: this record's GUID is 0x11, but its id says 0x10"},
    {"bad_guid", "switchguid=leaf\n", "dump:1: a GUID other than 0 is expected behind 'switchguid='"},
    {"bad_vendor", "vendid=0x1000000\n", "dump:1: a number of at most 24 bits is expected behind '='"},
    {"twice", "Ca 1 \"H-10\"\n\nCa 1 \"H-10\"\n", "dump:3: there is a record of 'H-10' already, in line 1"},
    {"same_guid", "Ca 1 \"H-10\" # \"a mlx5_0\"\n\nCa 1 \"H-010\" # \"b mlx5_0\"\n",
     "dump:3: GUID 0x0000000000000010 of b/mlx5_0 is that of a/mlx5_0 too"},
    {"port_range", "Ca 1 \"H-10\"\n[2](11) \"S-20\"[1]\n", "dump:2: 'H-10' has no port 2; its ports are 1 to 1"},
    {"port_word", "Ca 1 \"H-10\"\n[x](11) \"S-20\"[1]\n",
     "dump:2: a port line begins with the port's number, as in [1]"},
    {"no_remote", "Ca 1 \"H-10\"\n[1](11)\n", "dump:2: the other end's id in quotes is expected behind the port"},
    {"no_remote_port", "Ca 1 \"H-10\"\n[1](11) \"S-20\"\n",
     "dump:2: the port of 'S-20' is expected behind it, as in [1]"},
    {"remote_range", "Ca 1 \"H-10\"\n[1](11) \"S-20\"[5]\n\nSwitch 4 \"S-20\"\n",
     "dump:2: 'S-20' has no port 5; its ports are 1 to 4"},
    {"port_twice", "Ca 2 \"H-10\"\n[1](11) \"S-20\"[1]\n[1](11) \"S-20\"[2]\n",
     "dump:3: port 1 of 'H-10' is in line 2 already"},
    {"disagree", "Ca 1 \"H-10\"\n[1](11) \"S-20\"[1]\n\nSwitch 4 \"S-20\"\n[1] \"S-20\"[2]\n[2] \"S-20\"[1]\n",
     "dump:2: 'H-10' port 1 goes to 'S-20' port 1, but line 5 says that that one goes to 'S-20' port 2"},
    {"to_itself", "Ca 1 \"H-10\"\n[1](11) \"H-10\"[1]\n", "dump:2: port 1 of 'H-10' is cabled to itself"},
    {"same_lid",
     "Ca 1 \"H-10\" # \"a mlx5_0\"\n[1](11) \"H-20\"[1] (21) # lid 5 lmc 0 \"b mlx5_0\" lid 5 4xHDR\n\n"
     "Ca 1 \"H-20\" # \"b mlx5_0\"\n[1](21) \"H-10\"[1] (11) # lid 5 lmc 0 \"a mlx5_0\" lid 5 4xHDR\n",
     "dump:5: LID 0x5 of b/mlx5_0/1 is that of a/mlx5_0/1 too"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadDumps, testing::ValuesIn(bad_dumps),
                         [](const auto& test) { return test.param.name; });

// -- there and back

Fabric canonical(const Fabric& fabric) {
  auto completed = complete(sorted(fabric));
  if (!completed) throw std::runtime_error(completed.error().text);
  completed->name = "default";  // a dump has none
  return *completed;
}

class ThereAndBack : public testing::TestWithParam<Topology> {};

TEST_P(ThereAndBack, IsTheSameFabric) {
  auto generated = generate(GetParam());
  ASSERT_TRUE(generated);
  Fabric fabric = canonical(*complete(*generated));
  Imported imported = must_import(to_ibnetdiscover(fabric));
  EXPECT_THAT(imported.warnings, ElementsAre());
  EXPECT_EQ(canonical(imported.fabric), fabric);
  EXPECT_EQ(to_ibnetdiscover(canonical(imported.fabric)), to_ibnetdiscover(fabric));
}

INSTANTIATE_TEST_SUITE_P(Generated, ThereAndBack,
                         testing::Values(FatTree{.hosts = 50, .hcas = 2, .radix = 16},
                                         FatTree{.hosts = 100, .radix = 8, .tiers = 3, .speed = Speed::sdr},
                                         Superpod{Generation::h100, 1}, Superpod{Generation::hdr, 7},
                                         Superpod{Generation::b300, 1},
                                         Dragonfly{.groups = 5, .routers = 3, .hosts = 2, .global_links = 2}));

// Any fabric that a dump can tell of: names that a description brings back, all HCA ports linked, default partitions.
Fabric random_fabric() {
  Fabric fabric;
  fabric.switches.resize(*rc::gen::inRange<size_t>(1, 5));
  std::vector<u32> used(fabric.switches.size());
  const std::vector<Speed> speeds{Speed::sdr, Speed::qdr, Speed::fdr10, Speed::fdr, Speed::edr, Speed::hdr, Speed::xdr};
  const std::vector<Width> widths{Width::x1, Width::x2, Width::x4, Width::x8, Width::x12};
  auto hosts = *rc::gen::inRange<u32>(1, 12);
  for (u32 h = 0; h < hosts; ++h) {
    Host host{"n" + std::to_string(h), {}};
    auto hcas = *rc::gen::inRange<u32>(1, 4);
    for (u32 d = 0; d < hcas; ++d) {
      Hca hca{.name = "mlx5_" + std::to_string(d)};
      hca.model = *rc::gen::element(std::string("softib"), std::string("connectx-7"));
      auto ports = *rc::gen::inRange<u8>(1, 3);
      for (u8 p = 1; p <= ports; ++p) {
        hca.ports.push_back({.number = p, .speed = *rc::gen::elementOf(speeds), .width = *rc::gen::elementOf(widths)});
        auto sw = *rc::gen::inRange<u32>(0, static_cast<u32>(used.size()));
        fabric.cables.push_back({{EndKind::hca, h, d, p}, {EndKind::sw, sw, 0, ++used[sw]}, {}, {}});
      }
      host.hcas.push_back(hca);
    }
    fabric.hosts.push_back(host);
  }
  auto links = *rc::gen::inRange<u32>(0, 8);
  for (u32 i = 0; i < links; ++i) {
    auto a = *rc::gen::inRange<u32>(0, static_cast<u32>(used.size()));
    auto b = *rc::gen::inRange<u32>(0, static_cast<u32>(used.size()));
    CableEnd from{EndKind::sw, a, 0, ++used[a]};
    fabric.cables.push_back({from, {EndKind::sw, b, 0, ++used[b]}, *rc::gen::elementOf(speeds), {}});
  }
  for (u32 s = 0; s < used.size(); ++s)
    fabric.switches[s] = {.name = "s" + std::to_string(s),
                          .ports = std::max(used[s], 1U) + *rc::gen::inRange<u32>(0, 3),
                          .speed = *rc::gen::elementOf(speeds),
                          .width = *rc::gen::elementOf(widths),
                          .enhanced_port0 = *rc::gen::arbitrary<bool>()};
  return fabric;
}

// A dump tells what links run at, not what ports could do.
void limit_to_links(Fabric& fabric) {
  for (Host& host : fabric.hosts)
    for (Hca& hca : host.hcas)
      for (Port& port : hca.ports) {
        port.speed = port.link_speed;
        port.width = port.link_width;
      }
}

TEST(Property, WhatIsExportedComesBack) {
  EXPECT_TRUE(rc::check([] {
    auto completed = complete(random_fabric());
    RC_ASSERT(completed);
    limit_to_links(*completed);
    Fabric fabric = canonical(*completed);
    auto imported = import_ibnetdiscover(to_ibnetdiscover(fabric), "dump");
    RC_ASSERT(imported);
    RC_ASSERT(imported->warnings.empty());
    RC_ASSERT(imported->fabric.hosts == fabric.hosts);
    RC_ASSERT(sorted_cables(imported->fabric) == sorted_cables(fabric));
    RC_ASSERT(to_ibnetdiscover(canonical(imported->fabric)) == to_ibnetdiscover(fabric));
  }));
}

// -- names

TEST(NodeNames, FromDescriptions) {
  struct Row {
    const char* text;
    const char* host;
    const char* device;
  };
  const Row rows[] = {
      {"node17 mlx5_0", "node17", "mlx5_0"},
      {"node17 HCA-1", "node17", "mlx5_0"},
      {"node17 HCA-3", "node17", "mlx5_2"},
      {"node17/mlx4_0", "node17", "mlx4_0"},
      {"node17", "node17", ""},
      {"node17 ib0", "node17", "ib0"},
      {"node 17 mlx5_0", "node 17", "mlx5_0"},
      {"node17 storage", "node17", ""},
      {"'node17 mlx5_bond_0'", "node17", "mlx5_bond_0"},
      {"MT4123 ConnectX6   Mellanox Technologies", "", ""},
      {"Voltaire HCA410", "", ""},
      {"", "", ""},
  };
  for (const Row& row : rows) {
    HcaName name = name_from_description(row.text);
    EXPECT_EQ(name.host, row.host) << row.text;
    EXPECT_EQ(name.device, row.device) << row.text;
  }
}

TEST(NodeNames, MadeValid) {
  EXPECT_EQ(as_host_name("gpu_node.1", "x"), "gpu-node.1");
  EXPECT_EQ(as_host_name("-a-.-b-", "x"), "a.b");
  EXPECT_EQ(as_host_name("***", "x"), "x");
  EXPECT_EQ(as_switch_name("MF0;sw 1:MQM8700/U1", "x"), "MF0-sw-1-MQM8700-U1");
  EXPECT_EQ(as_switch_name("", "x"), "x");
}

TEST(NodeNames, NaturalOrder) {
  std::vector<std::string> names{"a10", "a9b", "a", "a9", "a09", "b1", "a-1", "10", "9"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_THAT(names, ElementsAre("9", "10", "a", "a-1", "a09", "a9", "a9b", "a10", "b1"));
}

}  // namespace
}  // namespace softib::fabric::topo
