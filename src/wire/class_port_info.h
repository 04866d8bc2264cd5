// ClassPortInfo, the one attribute that all management classes but subnet management have (IBTA vol. 1, 13.4.8.1).
#pragma once

#include "wire/mad.h"

namespace softib::wire {

inline constexpr u16 class_port_info_attribute = 0x0001;

namespace class_port_info {
inline constexpr Field base_version{0, 8};
inline constexpr Field class_version{8, 8};
inline constexpr Field capability_mask{16, 16};
inline constexpr Field capability_mask2{32, 27};
inline constexpr Field response_time{59, 5};
inline constexpr Field redirect_traffic_class{192, 8};
inline constexpr Field redirect_sl{200, 4};
inline constexpr Field redirect_flow_label{204, 20};
inline constexpr Field redirect_lid{224, 16};
inline constexpr Field redirect_pkey{240, 16};
inline constexpr Field redirect_qp{264, 24};
inline constexpr Field redirect_qkey{288, 32};
inline constexpr Field trap_traffic_class{448, 8};
inline constexpr Field trap_sl{456, 4};
inline constexpr Field trap_flow_label{460, 20};
inline constexpr Field trap_lid{480, 16};
inline constexpr Field trap_pkey{496, 16};
inline constexpr Field trap_hop_limit{512, 8};
inline constexpr Field trap_qp{520, 24};
inline constexpr Field trap_qkey{544, 32};
}  // namespace class_port_info

}  // namespace softib::wire
