// What a fabric is: hosts with HCAs, switches, cables. A plain description, complete once parsed: every GUID, LID, GID
// and link rate is filled in, the same ones each time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "fabric/error.h"
#include "fabric/rates.h"
#include "ipc/segment.h"

namespace softib::fabric {

using ipc::Gid;
using ipc::GidType;
using ipc::LinkLayer;

// Values of enum ibv_mtu.
enum class Mtu : u8 { b256 = 1, b512 = 2, b1024 = 3, b2048 = 4, b4096 = 5 };

[[nodiscard]] constexpr u32 bytes_of(Mtu mtu) { return 128U << static_cast<u32>(mtu); }

// What ibv_device_attr and sysfs say about the make of an HCA. The rows are in model.cpp.
struct Model {
  std::string_view name;      // as `model:` in a fabric file
  std::string_view hca_type;  // sysfs
  std::string_view board_id;
  std::string_view firmware;  // "20.38.1002"
  u32 vendor_id;              // OUI, as ibv_device_attr.vendor_id
  u32 vendor_part_id;
  u32 hardware_version;
  u16 pci_vendor;
  u16 pci_device;
};

[[nodiscard]] const Model* find_model(std::string_view name);
[[nodiscard]] std::vector<std::string_view> model_names();
// The make that calls itself so in NodeInfo, if it is one of ours.
[[nodiscard]] const Model* find_model(u32 vendor_id, u32 device_id);
inline constexpr std::string_view default_model = "softib";

struct GidEntry {
  Gid gid;
  GidType type;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

// A port of an HCA. The second part is worked out by complete().
struct Port {
  u8 number = 1;
  u64 guid = 0;              // 0 before complete(): assigned
  u16 lid = 0;               // 0 before complete(): assigned; stays 0 on Ethernet, and where no subnet manager is
  u8 lmc = 0;                // the port answers to 2^lmc LIDs from `lid` on, which is a multiple of that
  Speed speed = Speed::hdr;  // what the port can do
  Width width = Width::x4;
  Mtu mtu = Mtu::b4096;
  std::vector<u16> pkeys{};  // empty before complete(): the default partition
  u32 address = 0;           // IPv4, host order; 0 before complete(): assigned

  bool cabled = false;
  Speed link_speed = Speed::sdr;  // slowest of port, cable and other end; as `speed` when not cabled
  Width link_width = Width::x4;
  Mtu link_mtu = Mtu::b4096;  // smallest of both ends
  u32 subnet = 0;             // ports with the same number are connected through cables and switches; from 1
  u16 sm_lid = 0;             // where the subnet manager of this subnet sits
  std::vector<GidEntry> gids{};

  friend bool operator==(const Port&, const Port&) = default;
};

struct Hca {
  std::string name = "mlx5_0";
  std::string model{default_model};
  u64 node_guid = 0;    // 0 before complete(): as the first port's
  u64 system_guid = 0;  // 0 before complete(): as node_guid
  std::vector<Port> ports{};
  std::string description{};  // NodeDescription; empty: "HOST HCA" (node_description())
  u32 vendor_id = 0;          // of NodeInfo; 0: the model's
  u32 device_id = 0;

  friend bool operator==(const Hca&, const Hca&) = default;
};

// server: programs run there. aggregation: its HCAs are switches' own end nodes for in-network reduction (SHARP). They
// have GUIDs, LIDs and cables as HCAs have, and nobody but softibd runs programs on them.
enum class HostKind : u8 { server, aggregation };

struct Host {
  std::string name;
  std::vector<Hca> hcas;
  HostKind kind = HostKind::server;

  friend bool operator==(const Host&, const Host&) = default;
};

struct Switch {
  std::string name;
  u32 ports = 40;  // external ports, numbered from 1
  u64 node_guid = 0;
  u16 lid = 0;  // of port 0
  Speed speed = Speed::hdr;
  Width width = Width::x4;
  Mtu mtu = Mtu::b4096;
  u64 port_guid = 0;            // of port 0; 0 before complete(): as node_guid
  u64 system_guid = 0;          // 0 before complete(): as node_guid
  u8 lmc = 0;                   // of port 0; not 0 with an enhanced port 0 only
  bool enhanced_port0 = false;  // port 0 is a full end port, as managed switches have it
  bool aggregation = false;     // in-network reduction: it has an aggregation node, on which softib-aggregation runs
  std::string description{};    // NodeDescription; empty: the name
  u32 vendor_id = 0;            // of NodeInfo; 0: those of a switch that is at home at its speed
  u32 device_id = 0;

  friend bool operator==(const Switch&, const Switch&) = default;
};

// One end of a cable: a port of an HCA (node = host index, hca = its index there) or of a switch (node = switch index).
enum class EndKind : u8 { hca, sw };
struct CableEnd {
  EndKind kind = EndKind::hca;
  u32 node = 0;
  u32 hca = 0;
  u32 port = 1;  // 1-based

  friend bool operator==(const CableEnd&, const CableEnd&) = default;
};

struct Cable {
  CableEnd a;
  CableEnd b;
  std::optional<Speed> speed;  // none: as fast as both ends can
  std::optional<Width> width;

  friend bool operator==(const Cable&, const Cable&) = default;
};

// builtin: LIDs are there and ports are ACTIVE from the start. opensm: the stock program, started on hosts by softibd.
// none: ports stay INIT without LIDs.
enum class SubnetManager : u8 { builtin, opensm, none };

struct ManagerOptions {
  std::string routing{};            // empty: the manager's own choice
  u8 priority = 0;                  // 0 to 15
  u32 sweep_interval = 10;          // seconds between light sweeps; 0: none
  std::vector<CableEnd> ports{};    // opensm: where one runs, HCA ports; empty: the first one of each subnet
  std::vector<std::string> args{};  // opensm: further arguments
  std::string folder{};             // opensm: its working folder, for names of files in `args`; empty: its own folder

  friend bool operator==(const ManagerOptions&, const ManagerOptions&) = default;
};

// Network, name and mounts of a host: its own wherever that is allowed (automatic), or else the fabric does not start
// (on), or the machine's (off).
enum class Namespaces : u8 { automatic, on, off };

[[nodiscard]] constexpr std::string_view name_of(Namespaces namespaces) {
  return namespaces == Namespaces::on ? "on" : namespaces == Namespaces::off ? "off" : "auto";
}

// The hosts' interfaces over InfiniBand: over datagrams, or over connections, with packets of up to 65520 bytes.
enum class IpoibMode : u8 { datagram, connected };
inline constexpr u32 least_ipoib_mtu = 1280;  // of IPv6
struct Ipoib {
  IpoibMode mode = IpoibMode::datagram;
  u32 mtu = 0;  // 0: the largest that the mode has

  friend bool operator==(const Ipoib&, const Ipoib&) = default;
};

[[nodiscard]] constexpr std::string_view name_of(IpoibMode mode) {
  return mode == IpoibMode::connected ? "connected" : "datagram";
}
[[nodiscard]] constexpr u32 most_ipoib_mtu(IpoibMode mode) { return mode == IpoibMode::connected ? 65520 : 4092; }

struct Fabric {
  std::string name = "default";
  LinkLayer link_layer = LinkLayer::infiniband;
  SubnetManager sm = SubnetManager::builtin;
  ManagerOptions manager;
  std::string partitions;  // text of a partitions.conf; empty: what the ports' P_Keys say
  bool pace = false;       // links carry no more than their data rate; else they run as fast as memory does
  Namespaces namespaces = Namespaces::automatic;
  bool own_pids = false;  // with namespaces: hosts have processes of their own too
  Ipoib ipoib;
  std::vector<Host> hosts;
  std::vector<Switch> switches;
  std::vector<Cable> cables;

  friend bool operator==(const Fabric&, const Fabric&) = default;
};

// What the command line says over the file.
struct Overrides {
  std::optional<std::string> name;
  std::optional<LinkLayer> link_layer;
};

// host0 and host1 with one mlx5_0 each (4X HDR), one switch between them.
[[nodiscard]] Fabric default_fabric(std::string_view name = "default", LinkLayer link_layer = LinkLayer::infiniband);

// Bytes; a longer text of any form is refused.
inline constexpr size_t largest_description = 64U << 20;

// From YAML text (docs/fabric-file.md); `source` names it in errors. The result is complete.
[[nodiscard]] Parsed<Fabric> parse(std::string_view text, std::string_view source, const Overrides& overrides = {});
[[nodiscard]] Parsed<Fabric> load(const std::string& path, const Overrides& overrides = {});

// The same form, every value spelled out: parse(to_yaml(f)) == f.
[[nodiscard]] std::string to_yaml(const Fabric& fabric);

// Fills in what a description leaves open and checks what holds for the whole: unique names and GUIDs, cables between
// ports that exist, limits of the segment. Generators call it; parse() has done so.
[[nodiscard]] Parsed<Fabric> complete(Fabric fabric);

// A fabric's name is a folder name: letters, digits, '.', '_', '-', not starting with '.' or '-', at most 63
// characters.
[[nodiscard]] bool valid_fabric_name(std::string_view name);
// RFC 1123: letters, digits and '-' in parts separated by dots, at most 63 characters in all (the segment's limit).
[[nodiscard]] bool valid_host_name(std::string_view name);

// "host0/mlx5_0/1" or "sw0/3".
[[nodiscard]] std::string to_string(const Fabric& fabric, const CableEnd& end);
// What a link trains to: the best that both ends and the cable can do.
struct LinkRate {
  Speed speed = Speed::sdr;
  Width width = Width::x1;
  Mtu mtu = Mtu::b256;
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};
[[nodiscard]] LinkRate link_rate(const Fabric& fabric, const Cable& cable);

// What NodeDescription says.
[[nodiscard]] std::string node_description(const Host& host, const Hca& hca);
[[nodiscard]] std::string node_description(const Switch& sw);
// Printable ASCII, at most 64 characters, neither starting nor ending with a blank.
[[nodiscard]] bool valid_description(std::string_view text);

// What NodeInfo says of who made it.
struct Make {
  u32 vendor_id = 0;
  u32 device_id = 0;
  friend bool operator==(const Make&, const Make&) = default;
};
[[nodiscard]] Make make_of(const Hca& hca);
[[nodiscard]] Make make_of(const Switch& sw);
[[nodiscard]] bool is_mellanox(const Make& make);

// What a node of that make runs; empty: not known here.
struct Firmware {
  std::string_view version;  // "20.38.1002"
  std::string_view psid;     // names the board and its configuration
};
[[nodiscard]] Firmware firmware_of(const Make& make);

// Index, or nothing.
[[nodiscard]] std::optional<u32> find_host(const Fabric& fabric, std::string_view name);

[[nodiscard]] constexpr std::string_view name_of(SubnetManager sm) {
  return sm == SubnetManager::builtin ? "builtin" : sm == SubnetManager::opensm ? "opensm" : "none";
}

[[nodiscard]] constexpr std::string_view to_string(LinkLayer layer) {
  return layer == LinkLayer::ethernet ? "Ethernet" : "InfiniBand";  // as sysfs has it
}

}  // namespace softib::fabric
