// Notices: what traps carry, and what the subnet manager forwards to those who asked (IBTA vol. 1, 13.4.8.2
// and 14.2.5.1).
#pragma once

#include "wire/mad.h"

namespace softib::wire {

enum class TrapNumber : u16 {
  gid_in_service = 64,
  gid_out_of_service = 65,
  group_created = 66,
  group_deleted = 67,
  link_state = 128,
  link_integrity = 129,
  buffer_overrun = 130,
  flow_control_watchdog = 131,
  local_changes = 144,
  system_guid = 145,
  bad_m_key = 256,
  bad_p_key = 257,
  bad_q_key = 258,
  bad_p_key_at_switch = 259,
};

enum class NoticeType : u8 { fatal = 0, urgent = 1, security = 2, subnet_management = 3, informational = 4 };

namespace notice {
inline constexpr Field is_generic{0, 1};
inline constexpr Field type{1, 7};
inline constexpr Field producer{8, 24};  // NodeInfo.NodeType of whom it is about; the manager's own: 4
inline constexpr Field trap_number{32, 16};
inline constexpr Field issuer_lid{48, 16};
inline constexpr Field toggle{64, 1};
inline constexpr Field count{65, 15};
inline constexpr u32 details_at = 10;  // bytes
inline constexpr u32 details_size = 54;

// DataDetails, counted from the start of the notice. Traps 64 to 67:
inline constexpr u32 gid_at = 16;  // bytes
// Trap 128:
inline constexpr Field switch_lid{80, 16};
// Traps 129 to 131, 144, 145 and 256 to 259:
inline constexpr Field lid{96, 16};
// 129 to 131:
inline constexpr Field port{112, 8};
// 144:
inline constexpr Field other_local_changes{127, 1};
inline constexpr Field capability_mask{128, 32};
inline constexpr Field change_flags{160, 16};
inline constexpr Field capability_mask2{176, 16};
// 145:
inline constexpr Field new_system_guid{128, 64};
// 256:
inline constexpr Field dr_slid{112, 16};
inline constexpr Field method{128, 8};
inline constexpr Field attribute{144, 16};
inline constexpr Field modifier{160, 32};
inline constexpr Field m_key{192, 64};
inline constexpr Field is_directed{264, 1};
inline constexpr Field path_truncated{265, 1};
inline constexpr Field path_hops{266, 6};
inline constexpr u32 path_at = 34;  // bytes
inline constexpr u32 path_size = 30;
// 257 and 258:
inline constexpr Field lid2{112, 16};
inline constexpr Field key{128, 32};
inline constexpr Field sl{160, 4};
inline constexpr Field qp1{168, 24};
inline constexpr Field qp2{200, 24};
inline constexpr u32 gid1_at = 28;  // bytes
inline constexpr u32 gid2_at = 44;
// 259:
inline constexpr Field data_valid{80, 16};
inline constexpr Field p_key{128, 16};
inline constexpr Field sl_259{144, 4};
inline constexpr Field qp1_259{152, 24};
inline constexpr Field qp2_259{184, 24};
inline constexpr Field switch_lid_259{464, 16};
inline constexpr Field switch_port_259{480, 8};
}  // namespace notice

// Bits of change_flags of trap 144.
namespace local_change {
inline constexpr u16 node_description = 1;
inline constexpr u16 link_width_enabled = 2;
inline constexpr u16 link_speed_enabled = 4;
inline constexpr u16 sm_priority = 8;
}  // namespace local_change

}  // namespace softib::wire
