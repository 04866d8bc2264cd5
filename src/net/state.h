// What nodes, ports and cables are in. Flat vectors, found by index; rules are elsewhere.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "net/network.h"

namespace softib::net {

inline constexpr u32 none = ~0U;
inline constexpr u32 arbitration_entries = 8;  // of each of the two VL arbitration tables

using Attribute = std::array<u8, wire::smp::data_size>;

// Everything that a port counts, since the start; PMA shows it less what was there at the last reset.
enum class Count : u8 {
  xmit_words = 0,
  receive_words,
  xmit_packets,
  receive_packets,
  unicast_xmit,
  unicast_receive,
  multicast_xmit,
  multicast_receive,
  causes,                          // one each
  xmit_sl = causes + cause_count,  // words, one each
  receive_sl = xmit_sl + 16,
  end = receive_sl + 16
};
using Tally = std::array<u64, static_cast<size_t>(Count::end)>;
[[nodiscard]] constexpr size_t index_of(Count what, u32 of = 0) { return static_cast<size_t>(what) + of; }
[[nodiscard]] constexpr size_t index_of(Cause cause) { return index_of(Count::causes, static_cast<u32>(cause)); }

// What PMA has been told; there once somebody told it something.
struct Monitor;
struct MonitorDeleter {
  void operator()(Monitor* monitor) const;
};

struct Port {
  PortRef ref;
  u32 peer = none;  // index of the port at the other end of the cable
  u32 cable = none;
  ipc::PortState state = ipc::PortState::down;
  PhysicalState physical = PhysicalState::polling;
  u16 lid = 0;
  u8 lmc = 0;
  bool enforce_in = false;  // P_Keys, at a switch's external port
  bool enforce_out = false;

  u16 sm_lid = 0;
  u8 sm_sl = 0;
  u8 subnet_timeout = 18;
  u8 neighbor_mtu = 0;
  u8 mtu_cap = 0;
  u8 operational_vls = 0;
  u8 link_down_default = 2;
  u8 m_key_protect = 0;
  u16 m_key_lease = 0;  // seconds
  u64 m_key = 0;
  u64 lease_end = 0;  // when the M_Key's protection ends; 0: the lease isn't running
  bool lease_starts = false;
  u16 m_key_violations = 0;
  u16 p_key_violations = 0;
  u16 q_key_violations = 0;
  u16 capabilities2 = 0;
  u32 capabilities = 0;

  u16 speeds_supported = 0;  // of fabric::Speed
  u16 speeds_enabled = 0;
  u8 widths_supported = 0;  // of fabric::Width
  u8 widths_enabled = 0;
  fabric::Speed speed = fabric::Speed::sdr;
  fabric::Width width = fabric::Width::x1;

  bool led = false;
  u64 guid = 0;
  u64 gid_prefix = 0xfe80'0000'0000'0000;
  std::vector<u16> pkeys;
  std::vector<u16> first_pkeys;  // what the table holds after power-up
  std::vector<u64> guids;
  std::array<u8, 8> sl_to_vl{};  // of a CA's port or port 0
  std::array<u8, arbitration_entries * 4> arbitration{};
  Attribute settings{};  // PortInfo's fields that only the subnet manager reads, where PortInfo has them

  Tally tally{};
  std::unique_ptr<Monitor, MonitorDeleter> monitor;
};

// What a switch has and a CA hasn't.
struct Switching {
  u16 linear_top = 0;
  u16 multicast_top = 0;
  u8 default_port = 0;
  u8 default_multicast_primary = 0;
  u8 default_multicast_other = 0;
  u8 life_time = 0;
  bool state_change = false;
  bool enhanced = false;
  u32 mask_words = 1;          // 16-port masks of a multicast LID
  std::vector<u8> linear;      // by LID; grows as it is written; beyond: no port
  std::vector<u16> multicast;  // by MLID - 0xc000, mask_words each; grows
  std::vector<u8> sl_to_vl;    // 8 bytes each by [in][out]; empty: as at the start
};

struct Node {
  NodeKind kind = NodeKind::ca;
  u8 ports = 0;
  bool on = true;
  u64 on_since = 0;
  u32 first = 0;  // index of port 0 (a CA's is not used)
  u64 guid = 0;
  u64 system_guid = 0;
  u32 vendor = 0;
  u32 revision = 0;
  u16 device = 0;
  u16 partition_cap = 0;
  u8 sampled_port = 0;  // by PMA
  std::string description;
  std::unique_ptr<Switching> sw;
};

struct Cable {
  u32 ends[2] = {none, none};  // port indices
  u16 speeds = 0xffff;         // that it can carry
  u8 widths = 0xff;
  u16 speed_limit = 0xffff;  // faults
  u8 width_limit = 0xff;
  bool cut = false;
  LinkQuality quality;
  double error_debt = 0;  // errors that are due but no whole one yet
  double recovery_debt = 0;
  u64 counted_until = 0;  // time up to which they are counted; 0: from the next on_time() on
};

}  // namespace softib::net
