// Attributes of subnet management (IBTA vol. 1, 14.2.5): where their fields lie in the 64 bytes of SMP data.
#pragma once

#include "wire/mad.h"

namespace softib::wire {

enum class SmpAttribute : u16 {
  class_port_info = 0x0001,
  notice = 0x0002,
  node_description = 0x0010,
  node_info = 0x0011,
  switch_info = 0x0012,
  guid_info = 0x0014,
  port_info = 0x0015,
  pkey_table = 0x0016,
  sl_to_vl = 0x0017,
  vl_arbitration = 0x0018,
  linear_forwarding = 0x0019,
  random_forwarding = 0x001a,
  multicast_forwarding = 0x001b,
  sm_info = 0x0020,
  vendor_diag = 0x0030,
  led_info = 0x0031,
  mlnx_ext_port_info = 0xff90,  // Mellanox: FDR10
};

namespace node_info {
inline constexpr Field base_version{0, 8};
inline constexpr Field class_version{8, 8};
inline constexpr Field node_type{16, 8};
inline constexpr Field num_ports{24, 8};
inline constexpr Field system_guid{32, 64};
inline constexpr Field node_guid{96, 64};
inline constexpr Field port_guid{160, 64};
inline constexpr Field partition_cap{224, 16};
inline constexpr Field device_id{240, 16};
inline constexpr Field revision{256, 32};
inline constexpr Field local_port{288, 8};
inline constexpr Field vendor_id{296, 24};
}  // namespace node_info

namespace switch_info {
inline constexpr Field linear_cap{0, 16};
inline constexpr Field random_cap{16, 16};
inline constexpr Field multicast_cap{32, 16};
inline constexpr Field linear_top{48, 16};
inline constexpr Field default_port{64, 8};
inline constexpr Field default_multicast_primary{72, 8};
inline constexpr Field default_multicast_other{80, 8};
inline constexpr Field life_time{88, 5};
inline constexpr Field port_state_change{93, 1};
inline constexpr Field optimized_sl_to_vl{94, 2};
inline constexpr Field lids_per_port{96, 16};
inline constexpr Field partition_enforcement_cap{112, 16};
inline constexpr Field inbound_enforcement{128, 1};
inline constexpr Field outbound_enforcement{129, 1};
inline constexpr Field filter_raw_inbound{130, 1};
inline constexpr Field filter_raw_outbound{131, 1};
inline constexpr Field enhanced_port_0{132, 1};
inline constexpr Field multicast_top{144, 16};
}  // namespace switch_info

namespace port_info {
inline constexpr Field m_key{0, 64};
inline constexpr Field gid_prefix{64, 64};
inline constexpr Field lid{128, 16};
inline constexpr Field sm_lid{144, 16};
inline constexpr Field capability_mask{160, 32};
inline constexpr Field diag_code{192, 16};
inline constexpr Field m_key_lease_period{208, 16};
inline constexpr Field local_port{224, 8};
inline constexpr Field link_width_enabled{232, 8};
inline constexpr Field link_width_supported{240, 8};
inline constexpr Field link_width_active{248, 8};
inline constexpr Field link_speed_supported{256, 4};
inline constexpr Field port_state{260, 4};
inline constexpr Field physical_state{264, 4};
inline constexpr Field link_down_default_state{268, 4};
inline constexpr Field m_key_protect_bits{272, 2};
inline constexpr Field lmc{277, 3};
inline constexpr Field link_speed_active{280, 4};
inline constexpr Field link_speed_enabled{284, 4};
inline constexpr Field neighbor_mtu{288, 4};
inline constexpr Field sm_sl{292, 4};
inline constexpr Field vl_cap{296, 4};
inline constexpr Field init_type{300, 4};
inline constexpr Field vl_high_limit{304, 8};
inline constexpr Field vl_arbitration_high_cap{312, 8};
inline constexpr Field vl_arbitration_low_cap{320, 8};
inline constexpr Field init_type_reply{328, 4};
inline constexpr Field mtu_cap{332, 4};
inline constexpr Field vl_stall_count{336, 3};
inline constexpr Field hoq_life{339, 5};
inline constexpr Field operational_vls{344, 4};
inline constexpr Field enforce_inbound{348, 1};
inline constexpr Field enforce_outbound{349, 1};
inline constexpr Field filter_raw_inbound{350, 1};
inline constexpr Field filter_raw_outbound{351, 1};
inline constexpr Field m_key_violations{352, 16};
inline constexpr Field p_key_violations{368, 16};
inline constexpr Field q_key_violations{384, 16};
inline constexpr Field guid_cap{400, 8};
inline constexpr Field client_reregister{408, 1};
inline constexpr Field multicast_pkey_trap_suppression{409, 2};
inline constexpr Field subnet_timeout{411, 5};
inline constexpr Field response_time{419, 5};
inline constexpr Field local_phy_errors{424, 4};
inline constexpr Field overrun_errors{428, 4};
inline constexpr Field max_credit_hint{432, 16};
inline constexpr Field link_speed_ext2_active{449, 2};
inline constexpr Field link_speed_ext2_supported{451, 2};
inline constexpr Field link_speed_ext2_enabled{453, 3};
inline constexpr Field link_round_trip_latency{456, 24};
inline constexpr Field capability_mask2{480, 16};
inline constexpr Field link_speed_ext_active{496, 4};
inline constexpr Field link_speed_ext_supported{500, 4};
inline constexpr Field link_speed_ext_enabled{507, 5};

inline constexpr u32 sm_supports_ext_speeds = 1U << 31;  // of the attribute modifier
inline constexpr u32 ext_speeds_off = 30;                // values of LinkSpeedExtEnabled
inline constexpr u32 ext_speeds_all = 31;
}  // namespace port_info

// Bits of PortInfo.CapabilityMask.
namespace port_cap {
inline constexpr u32 is_sm = 1U << 1;
inline constexpr u32 notice = 1U << 2;
inline constexpr u32 trap = 1U << 3;
inline constexpr u32 auto_migration = 1U << 5;
inline constexpr u32 sl_mapping = 1U << 6;
inline constexpr u32 led_info = 1U << 9;
inline constexpr u32 sm_disabled = 1U << 10;
inline constexpr u32 system_guid = 1U << 11;
inline constexpr u32 extended_speeds = 1U << 14;
inline constexpr u32 capability_mask2 = 1U << 15;
inline constexpr u32 connection_management = 1U << 16;
inline constexpr u32 snmp = 1U << 17;
inline constexpr u32 device_management = 1U << 19;
inline constexpr u32 vendor_class = 1U << 20;
inline constexpr u32 capability_notice = 1U << 22;
inline constexpr u32 client_reregistration = 1U << 25;
inline constexpr u32 other_local_changes = 1U << 26;
inline constexpr u32 multicast_fdb_top = 1U << 30;
}  // namespace port_cap

// Bits of PortInfo.CapabilityMask2.
namespace port_cap2 {
inline constexpr u16 link_width_2x = 1U << 4;
inline constexpr u16 link_speed_hdr = 1U << 5;
inline constexpr u16 link_speed_ndr = 1U << 10;
}  // namespace port_cap2

namespace guid_info {
inline constexpr u32 guids_per_block = 8;
[[nodiscard]] constexpr Field guid(u32 index) { return Field{0, 64}.shifted(index * 64); }
}  // namespace guid_info

namespace pkey_table {
inline constexpr u32 keys_per_block = 32;
[[nodiscard]] constexpr Field key(u32 index) { return Field{0, 16}.shifted(index * 16); }
}  // namespace pkey_table

namespace sl_to_vl {
inline constexpr u32 levels = 16;
[[nodiscard]] constexpr Field vl(u32 sl) { return Field{0, 4}.shifted(sl * 4); }
}  // namespace sl_to_vl

namespace vl_arbitration {
inline constexpr u32 entries_per_block = 32;  // of two bytes: VL in the low half of the first, weight
[[nodiscard]] constexpr Field vl(u32 index) { return Field{4, 4}.shifted(index * 16); }
[[nodiscard]] constexpr Field weight(u32 index) { return Field{8, 8}.shifted(index * 16); }
}  // namespace vl_arbitration

namespace linear_forwarding {
inline constexpr u32 lids_per_block = 64;
inline constexpr u8 no_port = 0xff;
}  // namespace linear_forwarding

namespace multicast_forwarding {
inline constexpr u32 lids_per_block = 32;
inline constexpr u32 ports_per_position = 16;
[[nodiscard]] constexpr Field mask(u32 index) { return Field{0, 16}.shifted(index * 16); }
}  // namespace multicast_forwarding

namespace sm_info {
inline constexpr Field guid{0, 64};
inline constexpr Field sm_key{64, 64};
inline constexpr Field activity{128, 32};
inline constexpr Field priority{160, 4};
inline constexpr Field state{164, 4};
}  // namespace sm_info

namespace led_info {
inline constexpr Field on{0, 1};
}  // namespace led_info

namespace vendor_diag {
inline constexpr Field next_index{0, 16};
}  // namespace vendor_diag

namespace mlnx_ext_port_info {
inline constexpr Field state_change_enable{24, 8};
inline constexpr Field link_speed_supported{56, 8};  // bit 0: FDR10
inline constexpr Field link_speed_enabled{88, 8};
inline constexpr Field link_speed_active{120, 8};
}  // namespace mlnx_ext_port_info

}  // namespace softib::wire
