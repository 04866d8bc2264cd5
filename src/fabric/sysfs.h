// The sysfs tree and device nodes of a host, as plain files that the preload library shows to programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric {

// enum values of PortInfo.PortPhysicalState.
enum class PhysState : u8 { sleep = 1, polling = 2, disabled = 3, training = 4, link_up = 5, error_recovery = 6 };

// What changes while a fabric runs, and is shown in the tree.
struct PortStatus {
  ipc::PortState state = ipc::PortState::down;
  PhysState phys_state = PhysState::polling;
  u16 lid = 0;
  u16 sm_lid = 0;
  u8 lmc = 0;
  u8 sm_sl = 0;
  u32 capabilities = 0;  // IBV_PORT_*
  Speed speed = Speed::sdr;
  Width width = Width::x4;
  Mtu mtu = Mtu::b4096;
  std::vector<u16> pkeys;
  std::vector<GidEntry> gids;

  friend bool operator==(const PortStatus&, const PortStatus&) = default;
};

// A port as it stands right after the fabric came up.
[[nodiscard]] PortStatus initial_status(const Fabric& fabric, const Port& port);

struct PortPlace {
  u32 host;
  u32 hca;
  u32 port;  // index, not number
};

// `dir` is the fabric's folder. Writes hosts/<host>/sys and hosts/<host>/dev, about 140 files for each port, which are
// as `ports` say: those of the host, HCA by HCA. Whoever finds hosts/<host> finds everything in it. EEXIST: it is
// there.
[[nodiscard]] Result<void> write_host_tree(const std::string& dir, const Fabric& fabric, u32 host,
                                           std::span<const PortStatus> ports);

// Rewrites the files of one port that differ between `before` and `now`, each by an atomic rename. GID and P_Key tables
// have one file for each entry, and may grow or shrink.
[[nodiscard]] Result<void> update_port(const std::string& dir, const Fabric& fabric, PortPlace place,
                                       const PortStatus& before, const PortStatus& now);

// "hosts/host0/sys/devices/pci0000:00/0000:10:00.0/infiniband/mlx5_0/ports/1", below the fabric's folder.
[[nodiscard]] std::string port_path(const Fabric& fabric, PortPlace place);

// What lists an HCA in its host's tree: links of classes, device nodes. Below the fabric's folder.
[[nodiscard]] std::vector<std::string> device_entries(const Fabric& fabric, u32 host, u32 hca);

// The N of the port's umadN: ports of a host are counted through its HCAs.
[[nodiscard]] u32 port_number_on_host(const Fabric& fabric, PortPlace place);

// Name of the (not yet existing) network device behind an Ethernet port, as gid_attrs/ndevs has it.
[[nodiscard]] std::string net_device_name(const Fabric& fabric, PortPlace place);

// "ACTIVE", as sysfs shows it.
[[nodiscard]] std::string_view name_of(ipc::PortState state);

// 0x5254... -> "5254:00ff:fe00:0001"; a GID as eight groups of four digits.
[[nodiscard]] std::string guid_text(u64 guid);
[[nodiscard]] std::string gid_text(const Gid& gid);

}  // namespace softib::fabric
