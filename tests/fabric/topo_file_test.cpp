// ibutils' topology files and the system definitions behind them; ibsim's net files; telling forms apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cables.h"
#include "fabric/topo/export.h"
#include "fabric/topo/generate.h"
#include "fabric/topo/ibnl.h"
#include "fabric/topo/import.h"
#include "files.h"

namespace softib::fabric::topo {
namespace {

using test::cables_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

const std::vector<std::string> library{std::string(SOFTIB_FABRIC_DATA) + "/ibnl"};

Fabric from_topo(std::string_view text) {
  auto imported = import_topo(text, "f.topo", library);
  if (!imported) throw std::runtime_error(imported.error().text);
  return imported->fabric;
}

std::vector<std::string> switches_of(const Fabric& fabric) {
  std::vector<std::string> names;
  for (const Switch& sw : fabric.switches) names.push_back(sw.name);
  return names;
}

// -- ibutils

TEST(TopoFile, OneSwitch) {
  Fabric fabric = from_topo(
      "# a comment\nBox sw1\n  P1 -> Card H-1 P1\n  P2 -> Card H-1 P2   # both\n  P4 -> CardII H_2 P2\n"
      "  P5 -> Box sw2 P5\n  P3 -1x-2.5G-> Box sw2 P3\n");
  EXPECT_THAT(switches_of(fabric), ElementsAre("sw1", "sw2"));
  ASSERT_EQ(fabric.hosts.size(), 2U);
  EXPECT_EQ(fabric.hosts[1].name, "H-2");
  EXPECT_EQ(fabric.hosts[0].hcas[0].ports.size(), 2U);
  EXPECT_EQ(fabric.hosts[0].hcas[0].device_id, 4099U);
  EXPECT_EQ(fabric.switches[0].device_id, 48436U);
  EXPECT_THAT(cables_of(fabric),
              ElementsAre("H-1/mlx5_0/1 - sw1/1 4xHDR", "H-1/mlx5_0/2 - sw1/2 4xHDR", "H-2/mlx5_0/2 - sw1/4 4xQDR",
                          "sw1/5 - sw2/5 12xDDR", "sw1/3 - sw2/3 1xSDR"));
}

TEST(TopoFile, ACableListedUnderBothSystemsIsOne) {
  Fabric fabric = from_topo("Box a\n P1 -> Box b P1\n P2 -> Card h P1\nBox b\n P1 -> Box a P1\n");
  EXPECT_EQ(fabric.cables.size(), 2U);
}

TEST(TopoFile, BoardsAreOpenedUp) {
  Fabric fabric = from_topo("Frame F\n L1/P1 -> Card h1 P1\n L2/P2 -> Card h2 P1\n");
  EXPECT_THAT(switches_of(fabric), ElementsAre("F.main-U1", "F.main-U2", "F.line1-U1", "F.line2-U1"));
  EXPECT_THAT(cables_of(fabric),
              UnorderedElementsAre("F.main-U1/3 - F.main-U2/1 4xHDR", "F.main-U1/4 - F.main-U2/2 4xHDR",
                                   "F.main-U1/1 - F.line1-U1/5 4xHDR", "F.main-U1/2 - F.line2-U1/5 4xHDR",
                                   "F.main-U2/3 - F.line1-U1/6 4xHDR", "F.main-U2/4 - F.line2-U1/6 4xHDR",
                                   "h1/mlx5_0/1 - F.line1-U1/1 4xHDR", "h2/mlx5_0/1 - F.line2-U1/2 4xHDR"));
}

TEST(TopoFile, FlavoursAndMissingBoards) {
  Fabric fabric = from_topo("Frame F CFG: line1=wide, line2=R\n L1/W1 -> Box b P5\n\nBox b\n P1 -> Card h P1\n");
  EXPECT_THAT(switches_of(fabric), ElementsAre("F.main-U1", "F.main-U2", "F.line1-U1", "b"));
  EXPECT_THAT(cables_of(fabric), testing::Contains("F.line1-U1/1 - b/5 12xDDR"));
}

struct BadTopo {
  const char* name;
  const char* text;
  const char* error;  // its beginning
};

void PrintTo(const BadTopo& topo, std::ostream* out) { *out << topo.name; }

class BadTopos : public testing::TestWithParam<BadTopo> {};

TEST_P(BadTopos, NamesLineAndCause) {
  auto imported = import_topo(GetParam().text, "f.topo", library);
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().text, StartsWith(GetParam().error));
}

const BadTopo bad_topos[] = {
    {"empty", "", "f.topo:0: there is no system with an HCA in it"},
    {"unknown_type", "Box a\n P1 -> Card h P1\n\nBocks b\n", "f.topo:4: system type 'Bocks' is not known in "},
    {"unknown_remote", "Box a\n P1 -> MT9 h P1\n", "f.topo:2: system type 'MT9' is not known in "},
    {"no_port", "Box a\n P9 -> Card h P1\n", "f.topo:2: Box 'a' has no port 'P9'; did you mean 'P1'?"},
    {"remote_port", "Box a\n P1 -> Card h P3\n", "f.topo:2: Card 'h' has no port 'P3'; did you mean 'P1'?"},
    {"port_of_other_flavour", "Frame a\n L1/W1 -> Card h P1\n", "f.topo:2: Frame 'a' has no port 'L1/W1'"},
    {"two_types", "Box a\n P1 -> Card h P1\n P2 -> CardII h P2\n",
     "f.topo:3: 'h' is a CardII here, but a Card in line 2"},
    {"twice", "Box a\nBox a\n", "f.topo:2: there is a system 'a' already, in line 1"},
    {"header", "Box a b\n", "f.topo:1: a system is written TYPE NAME, and a connection PORT -> TYPE NAME PORT"},
    {"option", "Frame a CFG: line1\n", "f.topo:1: 'line1' is no board option such as leaf1=R"},
    {"flavour", "Frame a CFG: line1=huge\n P -> Card h P1\n", "f.topo:1: system 'a': "},
    {"orphan", "P1 -> Card h P1\n", "f.topo:1: a connection belongs behind the system that it starts from"},
    {"target", "Box a\n P1 -> Card h\n", "f.topo:2: a connection leads to TYPE NAME PORT"},
    {"limits", "Box a\n P1 -3x-> Card h P1\n", "f.topo:2: '-3x' is no width and speed, as in -4x-10G->"},
    {"used_twice", "Box a\n P1 -> Card h P1\n P1 -> Card i P1\n", "f.topo:3: a/1 has a cable already"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadTopos, testing::ValuesIn(bad_topos),
                         [](const auto& test) { return test.param.name; });

TEST(TopoFile, UnknownTypesAreNamedWithAHint) {
  EXPECT_THAT(import_topo("Boxx b\n", "f", library).error().text, HasSubstr("did you mean 'Box'?"));
  EXPECT_THAT(import_topo("Box b\n", "f", {}).error().text, HasSubstr("install ibutils, or set IBDM_IBNL_PATH"));
}

TEST(Ibnl, BadDefinitions) {
  auto error = [](std::string_view text) { return parse_ibnl(text, "x.ibnl").error().text; };
  EXPECT_EQ(error(""), "x.ibnl:0: there is no TOPSYSTEM in it");
  EXPECT_EQ(error("NODE SW 8 T U1\n"), "x.ibnl:1: 'NODE' stands before any SYSTEM or TOPSYSTEM");
  EXPECT_EQ(error("TOPSYSTEM A\nNODE SW 0 T U1\n"), "x.ibnl:2: a node has 1 to 254 ports, not 0");
  EXPECT_EQ(error("TOPSYSTEM A\nNODE XX 8 T U1\n"), "x.ibnl:2: a node is written NODE SW|CA|HCA PORTS TYPE NAME");
  EXPECT_EQ(error("TOPSYSTEM A\n1 -> P1\n"), "x.ibnl:2: a connection belongs behind a NODE or SUBSYSTEM");
  EXPECT_EQ(error("TOPSYSTEM A\nTOPSYSTEM B\n"), "x.ibnl:2: there is a TOPSYSTEM already");
  auto expanded = [](std::string_view text) { return expand(*parse_ibnl(text, "x.ibnl"), {}).error().text; };
  EXPECT_EQ(expanded("TOPSYSTEM A\nSUBSYSTEM B b\n"), "x.ibnl:2: there is no board 'B' for 'b'");
  EXPECT_EQ(expanded("TOPSYSTEM A\nNODE SW 8 T U1\n9 -> P1\n"), "x.ibnl:3: 'U1' has no port '9'");
  EXPECT_EQ(expanded("TOPSYSTEM A\nNODE SW 8 T U1\n1 -> U2 1\n"), "x.ibnl:3: there is no node and no board 'U2' here");
  EXPECT_EQ(expanded("TOPSYSTEM A\nNODE SW 8 T U1\nNODE SW 8 T U1\n"), "x.ibnl:3: there are two instances named 'U1'");
}

TEST(Ibnl, BoardsOnThemselvesEnd) {
  auto file = parse_ibnl("SYSTEM B\nSUBSYSTEM B x\nSUBSYSTEM B y\nSUBSYSTEM B z\nTOPSYSTEM A\nSUBSYSTEM B b\n", "x");
  ASSERT_TRUE(file);
  EXPECT_THAT(expand(*file, {}).error().text, HasSubstr("boards"));
}

// -- ibsim

TEST(Ibsim, NamesAreNotGuids) {
  auto imported = import_ibsim(
      "# comment\nSwitch\t8 \"Switch1\"\n[1]\t\"Hca1\"[1]\tw=8\n[4]\t\"Hca2\"\n[5] \"Switch2\"[5] s=7 e=2\n\n"
      "Switch 8 \"Switch2\"\n[5]\t\"Switch1\"[5] e=6\n\nHca\t2 \"Hca1\"\n[1]\t\"Switch1\"[1] w=12\n\nHca\t2 \"Hca2\"\n"
      "[1]\t\"Switch1\"[4]\n",
      "net");
  ASSERT_TRUE(imported) << imported.error().text;
  const Fabric& fabric = imported->fabric;
  EXPECT_THAT(imported->warnings, ElementsAre());
  // The numbers that ibsim gives.
  EXPECT_EQ(fabric.switches[0].node_guid, 0x200000U);
  EXPECT_EQ(fabric.switches[1].node_guid, 0x200001U);
  EXPECT_EQ(fabric.hosts[0].hcas[0].node_guid, 0x100000U);
  EXPECT_EQ(fabric.hosts[0].hcas[0].ports[1].guid, 0x100002U);
  EXPECT_EQ(fabric.hosts[1].hcas[0].node_guid, 0x100003U);
  EXPECT_EQ(node_description(fabric.hosts[0], fabric.hosts[0].hcas[0]), "Hca1");
  EXPECT_THAT(cables_of(fabric), ElementsAre("Hca1/mlx5_0/1 - Switch1/1 12xSDR", "Hca2/mlx5_0/1 - Switch1/4 4xSDR",
                                             "Switch1/5 - Switch2/5 4xEDR"));
}

TEST(Ibsim, GuidBasesAndWhatIsNotFollowed) {
  auto imported = import_ibsim(
      "include \"other\"\ncaguid=0x50\nHca 1 \"a\"\n[1] \"b\"[1]\n\nHca 1 \"b\"\n\ncaguid+0x10\nHca 1 \"c\"\n@[1] "
      "\"x\"\n"
      "do Link \"a\"\n",
      "net");
  ASSERT_TRUE(imported) << imported.error().text;
  EXPECT_EQ(imported->fabric.hosts[0].hcas[0].node_guid, 0x50U);
  EXPECT_EQ(imported->fabric.hosts[1].hcas[0].node_guid, 0x52U);
  EXPECT_EQ(imported->fabric.hosts[2].hcas[0].node_guid, 0x64U);
  EXPECT_THAT(imported->warnings, ElementsAre("net:1: 'include' is not followed; what it would change is left out",
                                              "net:10: aliases are not known here; this line is left out"));
}

TEST(Ibsim, ReadsWhatIbnetdiscoverWrites) {
  auto net = import_ibsim(test::recorded(SOFTIB_FABRIC_DATA, "fat-tree.ibnetdiscover"), "net");
  auto dump = import_ibnetdiscover(test::recorded(SOFTIB_FABRIC_DATA, "fat-tree.ibnetdiscover"), "dump");
  ASSERT_TRUE(net && dump);
  EXPECT_EQ(net->fabric, dump->fabric);
}

// -- a recorded dump: the real ibnetdiscover's, of a fabric that was generated here and loaded into ibsim

TEST(Recorded, DumpOfAGeneratedFabricIsThatFabric) {
  auto imported = import_ibnetdiscover(test::recorded(SOFTIB_FABRIC_DATA, "fat-tree.ibnetdiscover"), "dump");
  ASSERT_TRUE(imported) << imported.error().text;
  EXPECT_THAT(imported->warnings, ElementsAre());
  Fabric fabric = *complete(*generate(FatTree{.hosts = 6, .hcas = 2, .radix = 8, .speed = Speed::edr}));
  // ibsim has a rule of its own for the GUIDs of HCA ports: the node's and the port's number.
  for (Host& host : fabric.hosts)
    for (Hca& hca : host.hcas)
      for (Port& port : hca.ports) port.guid = hca.node_guid + port.number;
  fabric = *complete(fabric);
  EXPECT_EQ(imported->fabric.hosts, fabric.hosts);
  EXPECT_EQ(imported->fabric.switches, fabric.switches);
  EXPECT_THAT(cables_of(imported->fabric), testing::UnorderedElementsAreArray(cables_of(fabric)));
}

// -- telling forms apart

TEST(Forms, AreRecognised) {
  EXPECT_EQ(detect_form(test::recorded(SOFTIB_FABRIC_DATA, "traps.ibnetdiscover")), Form::ibnetdiscover);
  EXPECT_EQ(detect_form(test::recorded(SOFTIB_FABRIC_DATA, "fat-tree.ibnetdiscover")), Form::ibnetdiscover);
  EXPECT_EQ(detect_form("Switch\t8 \"Switch1\"\n[1]\t\"Hca1\"[1]\n"), Form::ibsim);
  EXPECT_EQ(detect_form("\nHca 1 \"S-10\"\n"), Form::ibsim);
  EXPECT_EQ(detect_form("MTS3600 sw\n  P1 -4x-10G-> MT23108 H-1 P1\n"), Form::topo);
  EXPECT_EQ(detect_form("hosts: 2\n"), Form::yaml);
  EXPECT_EQ(detect_form("hosts: [{name: a, hcas: [{description: x -> a b c}]}]\n"), Form::yaml);
  EXPECT_EQ(detect_form(to_yaml(default_fabric())), Form::yaml);
  EXPECT_EQ(detect_form(to_ibnetdiscover(default_fabric())), Form::ibnetdiscover);
  EXPECT_EQ(detect_form(""), Form::yaml);
}

}  // namespace
}  // namespace softib::fabric::topo
