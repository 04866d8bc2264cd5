#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/fabric.h"
#include "fabric/runtime.h"
#include "temp_dir.h"

namespace softib::fabric {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct BadFile {
  const char* name;
  const char* text;
  const char* error;  // the whole of it, or its beginning when it ends in "..."
};

void PrintTo(const BadFile& file, std::ostream* out) { *out << file.name; }

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, NamesLineAndCause) {
  auto fabric = parse(GetParam().text, "f.yaml");
  ASSERT_FALSE(fabric) << "was accepted";
  std::string expected = GetParam().error;
  if (expected.ends_with("..."))
    EXPECT_THAT(fabric.error().text, StartsWith(expected.substr(0, expected.size() - 3)));
  else
    EXPECT_EQ(fabric.error().text, expected);
  EXPECT_EQ(fabric.error().text.find('\n'), std::string::npos);
}

const BadFile bad_files[] = {
    // -- not a fabric at all
    {"empty", "", "f.yaml: the file is empty"},
    {"only_comment", "# nothing\n", "f.yaml: the file is empty"},
    {"list", "- 1\n", "f.yaml:1: the fabric must be a map of keys and values"},
    {"syntax", "hosts: [1, 2\n", "f.yaml:2: ..."},
    {"tab", "hosts:\n\t- a\n", "f.yaml:2: ..."},
    {"unknown_alias", "hosts: *x\n", "f.yaml:1: ..."},
    // -- keys
    {"unknown_key_near", "fabrik: lab\nhosts: 2\n",
     "f.yaml:1: unknown key 'fabrik' in the fabric; did you mean 'fabric'?"},
    {"unknown_key_far", "hosts: 2\nweather: fine\n",
     "f.yaml:2: unknown key 'weather' in the fabric; known are: fabric, link_layer, sm, partitions, pace, namespaces, "
     "ipoib, aggregation, topology, hosts, hcas, switches, cables"},
    {"unknown_key_case", "Hosts: 2\n", "f.yaml:1: unknown key 'Hosts' in the fabric; did you mean 'hosts'?"},
    {"unknown_key_host", "hosts:\n  - name: a\n    hca: 2\n",
     "f.yaml:3: unknown key 'hca' in a host; did you mean 'hcas'?"},
    {"unknown_key_hca", "hosts:\n  - name: a\n    hcas:\n      - {name: x, sped: HDR}\n",
     "f.yaml:4: unknown key 'sped' in an HCA; did you mean 'speed'?"},
    {"unknown_key_port", "hosts:\n  - hcas:\n      - ports:\n          - {number: 1, giud: 5}\n",
     "f.yaml:4: unknown key 'giud' in a port; did you mean 'guid'?"},
    {"unknown_key_switch", "hosts: 2\nswitches:\n  - {name: s, port: 3}\n",
     "f.yaml:3: unknown key 'port' in a switch; did you mean 'ports'?"},
    {"unknown_key_cable", "hosts: 2\ncables:\n  - {end: [a, b]}\n",
     "f.yaml:3: unknown key 'end' in a cable; did you mean 'ends'?"},
    {"repeated_key", "hosts: 2\nhosts: 3\n", "f.yaml:2: key 'hosts' appears twice in the fabric"},
    {"key_not_word", "[a]: 2\n", "f.yaml:1: a key of the fabric is not a plain word"},
    // -- top level values
    {"no_hosts", "fabric: lab\n", "f.yaml: no hosts; say 'hosts: 2', or give a list of them"},
    {"hosts_zero", "hosts: 0\n", "f.yaml:1: hosts must be a number from 1 to 32767, not '0'"},
    {"hosts_word", "hosts: many\n", "f.yaml:1: hosts must be a number from 1 to 32767, not 'many'"},
    {"hosts_huge", "hosts: 99999999999999999999\n",
     "f.yaml:1: hosts must be a number from 1 to 32767, not '99999999999999999999'"},
    {"hosts_negative", "hosts: -1\n", "f.yaml:1: hosts must be a number from 1 to 32767, not '-1'"},
    {"hosts_empty", "hosts: []\n", "f.yaml: a fabric needs at least one host"},
    {"hosts_map", "hosts: {a: b}\n", "f.yaml:1: hosts must be a number or a list"},
    {"too_many_devices", "hosts: 32767\nhcas: 2\n", "f.yaml:1: too large: at most 32767 HCAs in a fabric"},
    {"link_layer", "hosts: 2\nlink_layer: ethernot\n",
     "f.yaml:2: 'ethernot' is no link layer; known are: infiniband, ethernet"},
    {"link_layer_far", "hosts: 2\nlink_layer: omnipath\n",
     "f.yaml:2: 'omnipath' is no link layer; known are: infiniband, ethernet"},
    {"sm", "hosts: 2\nsm: opensm2\n", "f.yaml:2: 'opensm2' is no subnet manager; known are: builtin, opensm, none"},
    {"sm_key", "hosts: 2\nsm: {kind: opensm, engine: ftree}\n",
     "f.yaml:2: unknown key 'engine' in the subnet manager; known are: kind, routing, priority, sweep_interval, ports, "
     "args, folder"},
    {"sm_routing", "hosts: 2\nsm: {kind: opensm, routing: dfssp}\n",
     "f.yaml:2: 'dfssp' is no routing engine; known are: minhop, updn, dnup, file, ftree, lash, dor, torus-2QoS, nue, "
     "dfsssp, sssp, no_fallback"},
    {"sm_routing_builtin", "hosts: 2\nsm: {routing: dfsssp}\n",
     "f.yaml:2: 'dfsssp' is no routing engine; known are: minhop, updn, ftree"},
    {"sm_routings_builtin", "hosts: 2\nsm: {routing: [updn, ftree]}\n",
     "f.yaml:2: the built-in subnet manager takes one routing engine"},
    {"sm_priority", "hosts: 2\nsm: {priority: 16}\n", "f.yaml:2: priority must be a number from 0 to 15, not '16'"},
    {"sm_none_with_keys", "hosts: 2\nsm: {kind: none, priority: 1}\n",
     "f.yaml:2: 'kind: none' starts no subnet manager that could have other keys"},
    {"sm_args_builtin", "hosts: 2\nsm:\n  args: [-V]\n", "f.yaml:3: 'args' is for 'kind: opensm'"},
    {"sm_own_args", "hosts: 2\nsm: {kind: opensm, args: [-V, -B]}\n", "f.yaml:2: softibd sets '-B' of opensm itself"},
    {"sm_own_long_args", "hosts: 2\nsm: {kind: opensm, args: [--log_f=x]}\n",
     "f.yaml:2: softibd sets '--log_f=x' of opensm itself"},
    {"sm_port", "hosts: 2\nsm: {kind: opensm, ports: host0/mlx5_3}\n",
     "f.yaml:2: host 'host0' has no HCA 'mlx5_3'; did you mean 'mlx5_0'?"},
    {"sm_port_of_switch", "hosts: 2\nsm: {kind: opensm, ports: [sw0/1]}\n",
     "f.yaml:2: opensm runs on a host's port, as in host0/mlx5_0/1"},
    {"sm_port_twice", "hosts: 2\nsm: {kind: opensm, ports: [host0/mlx5_0/1, host0/mlx5_0]}\n",
     "f.yaml:2: a port has room for one opensm"},
    // -- partitions
    {"partitions_block", "hosts: 2\npartitions: |\n  Default=0x7fff: ALL=full;\n  lab=zz: ALL;\n",
     "f.yaml:4: bad P_Key 'zz'"},
    {"partitions_line", "hosts: 2\npartitions: 'Default=0x7fff: ALL=fool;'\n",
     "f.yaml:2: membership is full, limited or both, not 'fool'"},
    {"partitions_file", "hosts: 2\npartitions: /nowhere/parts.conf\n",
     "f.yaml:2: partitions: cannot read /nowhere/parts.conf: No such file or directory"},
    {"partitions_and_pkeys", "hosts: [{name: a, hcas: [{pkeys: [0x8001]}]}]\npartitions: 'A=1: ALL;'\n",
     "f.yaml:2: partitions say who has which P_Key, and so do the pkeys of a/mlx5_0; one of them has to go"},
    {"pace", "hosts: 2\npace: true\nlink_layer: ethernet\n",
     "f.yaml:2: only links of InfiniBand can be paced; leave this out or say false"},
    {"pace_word", "hosts: 2\npace: slow\n", "f.yaml:2: true or false is expected here"},
    {"fabric_name", "fabric: a/b\nhosts: 2\n", "f.yaml:1: 'a/b' is no fabric name: ..."},
    {"fabric_name_list", "fabric: [a]\nhosts: 2\n", "f.yaml:1: a name or word is expected here"},
    // -- topology
    {"topology_word", "topology: tree\n", "f.yaml:1: a topology is a map, as in {kind: fat-tree, hosts: 128}"},
    {"topology_kind", "topology: {kind: fat-three}\n", "f.yaml:1: 'fat-three' is no kind of topology; ..."},
    {"topology_no_kind", "topology: {hosts: 3}\n",
     "f.yaml:1: a topology needs 'kind': fat-tree, superpod or dragonfly"},
    {"topology_and_hosts", "topology: {kind: fat-tree, hosts: 3}\nhosts: 2\n",
     "f.yaml:2: 'hosts' can't stand beside 'topology', which makes hosts, switches and cables itself"},
    {"topology_key", "topology:\n  kind: fat-tree\n  host: 3\n",
     "f.yaml:3: unknown key 'host' in a fat tree; did you mean 'hosts'?"},
    {"topology_missing", "topology:\n  kind: dragonfly\n  groups: 3\n", "f.yaml:2: this topology needs 'routers'"},
    {"topology_generation", "topology: {kind: superpod, generation: a100, units: 1}\n",
     "f.yaml:1: 'a100' is no generation; known are: h100, b200, b300, hdr"},
    {"topology_units", "topology:\n  kind: superpod\n  generation: b300\n  units: 19\n",
     "f.yaml:4: units must be a number from 1 to 18, not '19'"},
    {"topology_ratio", "topology:\n  kind: fat-tree\n  hosts: 3\n  oversubscription: 3/1\n",
     "f.yaml:4: '3/1' is no ratio; write 3:1 or 3"},
    {"topology_too_large", "fabric: x\ntopology:\n  kind: fat-tree\n  hosts: 801\n",
     "f.yaml:3: 801 HCAs need 41 leaves of 40 ports; 2 tiers of such switches can't join them; use 3 tiers or a "
     "larger radix"},
    {"topology_dragonfly", "topology: {kind: dragonfly, groups: 4, routers: 2, hosts: 1}\n",
     "f.yaml:1: 4 groups, but a group has 2 global links: at most 3 groups can be joined"},
    // -- names
    {"host_name", "hosts:\n  - name: ok\n  - name: not_ok\n", "f.yaml:3: 'not_ok' is no host name: ..."},
    {"host_twice", "hosts:\n  - a\n  - b\n  - a\n", "f.yaml:4: there are two hosts named 'a'"},
    {"host_and_switch", "hosts: [a]\nswitches:\n  - s\n  - a\n", "f.yaml:4: there is a host named 'a' already"},
    {"switch_twice", "hosts: [a]\nswitches:\n  - s\n  - s\n", "f.yaml:4: there is a switch named 's' already"},
    {"hca_twice", "hosts:\n  - name: a\n    hcas:\n      - x\n      - x\n",
     "f.yaml:5: host 'a' has two HCAs named 'x'"},
    {"hca_name", "hosts:\n  - name: a\n    hcas: [{name: a/b}]\n", "f.yaml:3: 'a/b' is no device name: ..."},
    {"hca_name_dots", "hosts:\n  - name: a\n    hcas: [{name: ..}]\n", "f.yaml:3: '..' is no device name: ..."},
    // -- HCAs and ports
    {"hcas_many", "hosts: 1\nhcas: 33\n", "f.yaml:2: hcas must be a number from 0 to 32, not '33'"},
    {"model", "hosts:\n  - hcas:\n    - {model: connectx6}\n",
     "f.yaml:3: 'connectx6' is no model; known are: softib, connectx-5, ..."},
    {"ports_none", "hosts:\n  - hcas:\n    - {ports: []}\n", "f.yaml:3: an HCA has 1 to 4 ports, not 0"},
    {"ports_many", "hosts:\n  - hcas:\n    - {ports: 5}\n", "f.yaml:3: ports must be a number from 1 to 4, not '5'"},
    {"port_number", "hosts:\n  - hcas:\n    - ports:\n      - {number: 1}\n      - {number: 1}\n",
     "f.yaml:5: ports are numbered 1, 2, ... in order; this one says 1"},
    {"speed", "hosts:\n  - hcas:\n    - {speed: HDR100}\n",
     "f.yaml:3: 'HDR100' is no speed; known are: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR"},
    {"width", "hosts:\n  - hcas:\n    - {width: 3x}\n", "f.yaml:3: '3x' is no width; known are: 1x, 2x, 4x, 8x, 12x"},
    {"mtu", "hosts:\n  - hcas:\n    - {mtu: 1500}\n", "f.yaml:3: '1500' is no MTU; ..."},
    {"pkeys_not_list", "hosts:\n  - hcas:\n    - {pkeys: 0xffff}\n",
     "f.yaml:3: pkeys must be a list of numbers, as in [0xffff, 0x8001]"},
    {"pkey_large", "hosts:\n  - hcas:\n    - {pkeys: [0x10000]}\n",
     "f.yaml:3: a P_Key must be a number from 1 to 65535, not '0x10000'"},
    {"pkey_zero_partition", "hosts:\n  - hcas:\n    - {pkeys: [0x8000]}\n",
     "f.yaml:3: a P_Key needs a partition number other than 0"},
    {"pkeys_many",
     "hosts:\n  - hcas:\n    - {pkeys: "
     "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33]}\n",
     "f.yaml:3: a port has at most 32 P_Keys"},
    {"guid_zero", "hosts:\n  - hcas:\n    - {node_guid: 0}\n", "f.yaml:3: '0' is no GUID; ..."},
    {"guid_word", "hosts:\n  - hcas:\n    - {node_guid: 5254:00ff:fe00}\n",
     "f.yaml:3: '5254:00ff:fe00' is no GUID; ..."},
    {"guid_long", "hosts:\n  - hcas:\n    - {node_guid: 0x12345678123456789}\n",
     "f.yaml:3: '0x12345678123456789' is no GUID; ..."},
    {"guid_twice",
     "hosts:\n  - name: a\n    hcas: [{ports: [{guid: 0x17}]}]\n  - name: b\n    hcas:\n      - ports:\n          - "
     "{guid: 0x17}\n",
     "f.yaml:7: GUID 0x0000000000000017 of b/mlx5_0 is that of a/mlx5_0 too"},
    {"guid_twice_in_hca",
     "hosts:\n  - name: a\n    hcas:\n      - ports:\n          - {guid: 9}\n          - {guid: 9}\n",
     "f.yaml:6: two ports of a/mlx5_0 have GUID 0x0000000000000009"},
    {"guid_of_assigned", "hosts:\n  - name: a\n  - name: b\n    hcas: [{node_guid: 0x525400fffe000001}]\n",
     "f.yaml:4: GUID 0x525400fffe000001 of b/mlx5_0 is that of a/mlx5_0 too"},
    {"guid_of_switch", "hosts: 1\nswitches:\n  - {node_guid: 0x525400fffe000001}\n",
     "f.yaml:3: GUID 0x525400fffe000001 of switch sw0 is that of host0/mlx5_0 too"},
    {"lid_zero", "hosts:\n  - hcas: [{ports: [{lid: 0}]}]\n",
     "f.yaml:2: lid must be a number from 1 to 49151, not '0'"},
    {"lid_multicast", "hosts:\n  - hcas: [{ports: [{lid: 0xc000}]}]\n",
     "f.yaml:2: lid must be a number from 1 to 49151, not '0xc000'"},
    {"lid_twice", "hosts:\n  - hcas: [{ports: [{lid: 5}]}]\n  - hcas:\n    - ports:\n        - {lid: 5}\n",
     "f.yaml:5: LID 0x5 of host1/mlx5_0/1 is that of host0/mlx5_0/1 too"},
    {"lid_ethernet", "link_layer: ethernet\nhosts:\n  - hcas: [{ports: [{lid: 5}]}]\n",
     "f.yaml:3: host0/mlx5_0/1 has a LID, but the link layer is Ethernet"},
    {"lid_no_manager", "sm: none\nhosts: 1\nswitches: [{lid: 5}]\n",
     "f.yaml:3: switch 'sw0' has a LID, but there is no subnet manager (sm: none)"},
    {"address", "hosts:\n  - hcas: [{ports: [{address: 10.0.0}]}]\n", "f.yaml:2: '10.0.0' is no IPv4 address"},
    {"address_large", "hosts:\n  - hcas: [{ports: [{address: 10.0.0.256}]}]\n",
     "f.yaml:2: '10.0.0.256' is no IPv4 address"},
    {"address_twice", "link_layer: ethernet\nhosts:\n  - a\n  - name: b\n    hcas: [{ports: [{address: 10.0.0.1}]}]\n",
     "f.yaml:5: address 10.0.0.1 of b/mlx5_0/1 is that of a/mlx5_0/1 too"},
    {"count_zero", "hosts:\n  - {name: n, count: 0}\n", "f.yaml:2: count must be a number from 1 to 32767, not '0'"},
    {"host_kind", "hosts:\n  - {name: a, kind: servant}\n",
     "f.yaml:2: 'servant' is no kind of host; known are: server, aggregation"},
    {"lmc_large", "hosts:\n  - hcas: [{ports: [{lmc: 8}]}]\n", "f.yaml:2: lmc must be a number from 0 to 7, not '8'"},
    {"lmc_unaligned", "hosts:\n  - hcas:\n    - ports:\n      - {lid: 5, lmc: 1}\n",
     "f.yaml:4: LID 0x5 of host0/mlx5_0/1 is no multiple of 2 (LMC 1)"},
    {"lmc_overlap", "hosts:\n  - hcas: [{ports: [{lid: 4, lmc: 2}]}]\n  - hcas: [{ports: [{lid: 6}]}]\n",
     "f.yaml:3: LID 0x6 of host1/mlx5_0/1 is that of host0/mlx5_0/1 too"},
    {"lmc_base_port0", "hosts: 2\nswitches:\n  - {name: s, lmc: 1}\n",
     "f.yaml:3: switch 's' has an LMC, but no enhanced port 0"},
    {"description", "hosts:\n  - name: a\n    hcas:\n      - {description: 'x\\x01'}\n      - {description: ' x'}\n",
     "f.yaml:5: a description is printable ASCII, at most 64 characters, with no blank at either end"},
    {"vendor_id", "hosts: 1\nswitches:\n  - {vendor_id: 0x1000000}\n",
     "f.yaml:3: vendor_id must be a number from 1 to 16777215, not '0x1000000'"},
    // -- switches and cables
    {"switch_ports", "hosts: 2\nswitches:\n  - {ports: 255}\n",
     "f.yaml:3: ports must be a number from 1 to 254, not '255'"},
    {"switch_full", "hosts: 3\nswitches: [{name: s, ports: 2}]\n",
     "f.yaml:2: 3 HCA ports do not fit on switch 's' with 2 ports; list switches and cables"},
    {"own_switch_full", "fabric: x\nhosts: 255\n",
     "f.yaml:2: 255 HCA ports do not fit on switch 'sw0' with 254 ports; list switches and cables"},
    {"cables_number", "hosts: 2\ncables: 2\n", "f.yaml:2: cables must be a list"},
    {"cable_word", "hosts: 2\ncables:\n  - host0\n", "f.yaml:3: a cable must be a map of keys and values"},
    {"cable_one_end", "hosts: 2\ncables:\n  - [host0/mlx5_0/1]\n",
     "f.yaml:3: a cable has two ends, as in [host0/mlx5_0/1, sw0/1]"},
    {"cable_no_ends", "hosts: 2\ncables:\n  - {speed: HDR}\n",
     "f.yaml:3: a cable has two ends, as in [host0/mlx5_0/1, sw0/1]"},
    {"end_without_port", "hosts: 2\ncables:\n  - [host0, sw0/1]\n",
     "f.yaml:3: cable end 'host0' must be SWITCH/PORT, HOST/HCA/PORT, or HOST/HCA for port 1; this is a host, so name "
     "its "
     "HCA too"},
    {"end_unknown", "hosts: 2\ncables:\n  - [host2/mlx5_0/1, sw0/1]\n",
     "f.yaml:3: cable end 'host2/mlx5_0/1': there is no host and no switch 'host2'"},
    {"end_unknown_hca", "hosts: 2\ncables:\n  - [host0/mlx5_9/1, sw0/1]\n",
     "f.yaml:3: host 'host0' has no HCA 'mlx5_9'; did you mean 'mlx5_0'?"},
    {"end_unknown_port", "hosts: 2\ncables:\n  - [host0/mlx5_0/2, sw0/1]\n",
     "f.yaml:3: host0/mlx5_0 has no port '2'; its ports are 1 to 1"},
    {"end_port_zero", "hosts: 2\ncables:\n  - [host0/mlx5_0/1, sw0/0]\n",
     "f.yaml:3: switch 'sw0' has no port '0'; its ports are 1 to 40"},
    {"end_port_word", "hosts: 2\ncables:\n  - [host0/mlx5_0/1, sw0/1/1]\n",
     "f.yaml:3: switch 'sw0' has no port '1/1'; its ports are 1 to 40"},
    {"end_used_twice", "hosts: 2\ncables:\n  - [host0/mlx5_0/1, sw0/1]\n  - [host1/mlx5_0/1, sw0/1]\n",
     "f.yaml:4: sw0/1 has a cable already"},
    {"cable_to_itself", "hosts: 2\ncables:\n  - [host0/mlx5_0/1, host0/mlx5_0/1]\n",
     "f.yaml:3: host0/mlx5_0/1 has a cable already"},
    {"cable_speed", "hosts: 2\ncables:\n  - {ends: [host0/mlx5_0/1, sw0/1], speed: fast}\n",
     "f.yaml:3: 'fast' is no speed; ..."},
};

INSTANTIATE_TEST_SUITE_P(Table, BadFiles, testing::ValuesIn(bad_files),
                         [](const auto& test) { return test.param.name; });

TEST(Parse, EveryKeyArrives) {
  auto fabric = parse(R"(
# A small lab
fabric: lab
link_layer: InfiniBand
sm: builtin
pace: false
hosts:
  - name: alpha
    hcas:
      - name: ib0
        model: connectx-7
        node_guid: 0xa088c20300abcd00
        system_guid: a088:c203:00ab:cdff
        ports:
          - {number: 1, guid: 0xa088c20300abcd01, lid: 0x20, speed: ndr, width: 4, mtu: 2048, pkeys: [0x7fff, 0x8001]}
          - {}
  - beta
  - {name: node, count: 2, hcas: 2}
switches:
  - {name: leaf, ports: 64, node_guid: 0x77, lid: 9, speed: NDR, width: 8x, mtu: 1024}
  - spine
cables:
  - [alpha/ib0/1, leaf/1]
  - {ends: [alpha/ib0/2, spine/40], speed: EDR, width: 2x}
)",
                      "lab.yaml");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->name, "lab");
  ASSERT_EQ(fabric->hosts.size(), 4U);
  const Hca& hca = fabric->hosts[0].hcas[0];
  EXPECT_EQ(hca.name, "ib0");
  EXPECT_EQ(hca.model, "connectx-7");
  EXPECT_EQ(hca.node_guid, 0xa088c20300abcd00ULL);
  EXPECT_EQ(hca.system_guid, 0xa088c20300abcdffULL);
  EXPECT_EQ(hca.ports[0].guid, 0xa088c20300abcd01ULL);
  EXPECT_EQ(hca.ports[0].lid, 0x20);
  EXPECT_EQ(hca.ports[0].speed, Speed::ndr);
  EXPECT_EQ(hca.ports[0].mtu, Mtu::b2048);
  EXPECT_EQ(hca.ports[0].pkeys, (std::vector<u16>{0x7fff, 0x8001}));
  EXPECT_EQ(hca.ports[1].number, 2);
  EXPECT_EQ(hca.ports[1].link_speed, Speed::edr);
  EXPECT_EQ(hca.ports[1].link_width, Width::x2);
  EXPECT_EQ(fabric->hosts[1].name, "beta");
  EXPECT_EQ(fabric->hosts[2].name, "node0");
  EXPECT_EQ(fabric->hosts[3].hcas[1].name, "mlx5_1");
  EXPECT_EQ(fabric->switches[0].ports, 64U);
  EXPECT_EQ(fabric->switches[0].lid, 9);
  EXPECT_EQ(fabric->switches[0].node_guid, 0x77U);
  EXPECT_EQ(fabric->switches[0].width, Width::x8);
  EXPECT_EQ(fabric->switches[0].mtu, Mtu::b1024);
  EXPECT_EQ(fabric->switches[1].ports, 40U);
  EXPECT_EQ(fabric->cables[1].b, (CableEnd{EndKind::sw, 1, 0, 40}));
  EXPECT_EQ(*parse(to_yaml(*fabric), "again"), *fabric);
}

TEST(Parse, WhatIsSaidOfTheSubnetManagerArrives) {
  auto fabric = parse(R"(
hosts: 2
sm: {kind: opensm, routing: [lash, no_fallback], priority: 5, sweep_interval: 0, ports: [host1/mlx5_0],
     args: [-Q, "a b"]}
)",
                      "/some/where/lab.yaml");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->sm, SubnetManager::opensm);
  EXPECT_EQ(fabric->manager.routing, "lash,no_fallback");
  EXPECT_EQ(fabric->manager.priority, 5);
  EXPECT_EQ(fabric->manager.sweep_interval, 0U);
  EXPECT_EQ(fabric->manager.ports, (std::vector<CableEnd>{{EndKind::hca, 1, 0, 1}}));
  EXPECT_EQ(fabric->manager.args, (std::vector<std::string>{"-Q", "a b"}));
  EXPECT_EQ(fabric->manager.folder, "/some/where") << "where names of files in args start";
  EXPECT_EQ(fabric->hosts[0].hcas[0].ports[0].lid, 0) << "opensm gives LIDs";
  EXPECT_EQ(*parse(to_yaml(*fabric), "/else/where.yaml"), fabric);
  fabric = parse("{hosts: 2, sm: {routing: updn, priority: 15}}", "f");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->sm, SubnetManager::builtin);
  EXPECT_EQ(*parse(to_yaml(*fabric), "again"), fabric);
}

TEST(Parse, LidsOfTheFileStayUnderOpensm) {
  auto fabric = parse("{hosts: [{hcas: [{ports: [{lid: 7}]}]}, b], sm: opensm, switches: [{lid: 9}]}", "f");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->hosts[0].hcas[0].ports[0].lid, 7);
  EXPECT_EQ(fabric->hosts[0].hcas[0].ports[0].sm_lid, 0) << "opensm says where it sits";
  EXPECT_EQ(fabric->hosts[1].hcas[0].ports[0].lid, 0);
  EXPECT_EQ(fabric->switches[0].lid, 9);
  EXPECT_EQ(*parse(to_yaml(*fabric), "again"), fabric);
}

TEST(Parse, PartitionsStandInTheFileOrBesideIt) {
  constexpr const char* text = "Default=0x7fff, ipoib : ALL=full ;\n# \"quoted\" and\\\nlab=0x10 : ALL=limited ;\n";
  const test::TempDir dir;
  ASSERT_TRUE(write_file(dir / "parts.conf", text));
  auto beside = parse("{hosts: 2, partitions: parts.conf}", dir / "lab.yaml");
  ASSERT_TRUE(beside) << beside.error().text;
  EXPECT_EQ(beside->partitions, text);
  EXPECT_EQ(*parse(to_yaml(*beside), "again"), beside);
  auto inside = parse(R"(
hosts: 2
partitions: |
  Default=0x7fff, ipoib : ALL=full ;
  # "quoted" and\
  lab=0x10 : ALL=limited ;
)",
                      "lab.yaml");
  ASSERT_TRUE(inside) << inside.error().text;
  EXPECT_EQ(inside->partitions, text);
  ASSERT_TRUE(write_file(dir / "parts.conf", "Default=0x7fff: ALL=full;\n\nlab=0x10: guid7;\n"));
  beside = parse("{hosts: 2, partitions: parts.conf}", dir / "lab.yaml");
  ASSERT_FALSE(beside);
  EXPECT_EQ(beside.error().text, dir / "parts.conf:3: bad port GUID 'guid7'");
}

TEST(Parse, WithoutCablesAllGoToTheFirstSwitch) {
  auto fabric = parse("{hosts: 30, hcas: [{ports: 2}], switches: 2}", "f");
  EXPECT_FALSE(fabric) << "60 ports on a switch of 40";
  fabric = parse("{hosts: 20, hcas: [{ports: 2}], switches: 2}", "f");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->cables.size(), 40U);
  EXPECT_EQ(to_string(*fabric, fabric->cables[39].a), "host19/mlx5_0/2");
  EXPECT_EQ(to_string(*fabric, fabric->cables[39].b), "sw0/40");
  fabric = parse("{hosts: 100}", "f");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->switches[0].ports, 100U) << "the switch that nobody described is as large as needed";
}

TEST(Parse, EmptyListsMeanNone) {
  auto fabric = parse("{hosts: [a], hcas: 0, switches: [], cables: []}", "f");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_TRUE(fabric->hosts[0].hcas.empty());
  EXPECT_TRUE(fabric->switches.empty());
  EXPECT_EQ(*parse(to_yaml(*fabric), "again"), *fabric);
}

TEST(Parse, CommandLineGoesOverTheFile) {
  auto fabric = parse("{fabric: a, hosts: 2}", "f", {.name = "b", .link_layer = LinkLayer::ethernet});
  ASSERT_TRUE(fabric);
  EXPECT_EQ(*fabric, default_fabric("b", LinkLayer::ethernet));
}

TEST(Parse, NamesThatLookLikeOtherThingsReadBack) {
  auto fabric = parse("{fabric: \"7\", hosts: [\"1\", \"null\", \"true\", no]}", "f");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->hosts[1].name, "null");
  EXPECT_EQ(*parse(to_yaml(*fabric), "again"), *fabric);
}

TEST(Parse, AnchorsMayRepeatParts) {
  auto fabric = parse("hosts:\n  - {name: a, hcas: &h [{speed: EDR}]}\n  - {name: b, hcas: *h}\n", "f");
  ASSERT_TRUE(fabric) << fabric.error().text;
  EXPECT_EQ(fabric->hosts[1].hcas[0].ports[0].speed, Speed::edr);
}

TEST(Parse, ErrorsStayShortAndOnOneLine) {
  auto fabric = parse("hosts: [\"a\\nb\\e[31m\"]", "f");
  ASSERT_FALSE(fabric);
  EXPECT_THAT(fabric.error().text, StartsWith("f:1: 'a?b?[31m' is no host name"));
  fabric = parse("hosts: [" + std::string(100'000, 'x') + "]", "f");
  ASSERT_FALSE(fabric);
  EXPECT_LT(fabric.error().text.size(), 600U);
}

TEST(Load, SaysWhyAFileCannotBeRead) {
  auto missing = load("/nonexistent/f.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text, "/nonexistent/f.yaml: No such file or directory");
  auto folder = load("/tmp");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().text, HasSubstr("directory"));
}

TEST(Load, ReadsAFile) {
  test::TempDir dir;
  ASSERT_TRUE(write_file(dir / "f.yaml", "hosts: 2\n"));
  EXPECT_EQ(*load(dir / "f.yaml"), default_fabric());
}

}  // namespace
}  // namespace softib::fabric
