// Attributes of performance management (IBTA vol. 1, 16.1.3): where their fields lie in the 192 bytes of its data.
#pragma once

#include "wire/mad.h"

namespace softib::wire {

enum class PerfAttribute : u16 {
  class_port_info = 0x0001,
  samples_control = 0x0010,
  samples_result = 0x0011,
  port_counters = 0x0012,
  receive_error_details = 0x0015,
  xmit_discard_details = 0x0016,
  op_receive_counters = 0x0017,
  flow_control_counters = 0x0018,
  vl_op_packets = 0x0019,
  vl_op_data = 0x001a,
  vl_flow_control_errors = 0x001b,
  vl_xmit_wait = 0x001c,
  port_counters_extended = 0x001d,
  extended_speeds_counters = 0x001f,
  xmit_data_sl = 0x0036,
  receive_data_sl = 0x0037,
};

inline constexpr u8 all_ports = 0xff;  // PortSelect

// Bits of PerfMgt ClassPortInfo.CapabilityMask, and of CapabilityMask2.
namespace perf_cap {
inline constexpr u16 all_port_select = 1U << 8;
inline constexpr u16 extended_width = 1U << 9;
inline constexpr u16 xmit_wait = 1U << 12;
inline constexpr u32 more_extended_counters = 1U << 1;  // errors in PortCountersExtended
}  // namespace perf_cap

// What all its attributes that count have in common.
namespace counters {
inline constexpr Field port_select{8, 8};
inline constexpr Field select{16, 16};
}  // namespace counters

namespace port_counters {
inline constexpr Field symbol_error{32, 16};
inline constexpr Field link_error_recovery{48, 8};
inline constexpr Field link_downed{56, 8};
inline constexpr Field receive_errors{64, 16};
inline constexpr Field receive_remote_physical_errors{80, 16};
inline constexpr Field receive_switch_relay_errors{96, 16};
inline constexpr Field xmit_discards{112, 16};
inline constexpr Field xmit_constraint_errors{128, 8};
inline constexpr Field receive_constraint_errors{136, 8};
inline constexpr Field select2{144, 8};  // bit 0: PortXmitWait
inline constexpr Field local_link_integrity_errors{152, 4};
inline constexpr Field excessive_buffer_overrun_errors{156, 4};
inline constexpr Field qp1_dropped{160, 16};
inline constexpr Field vl15_dropped{176, 16};
inline constexpr Field xmit_data{192, 32};
inline constexpr Field receive_data{224, 32};
inline constexpr Field xmit_packets{256, 32};
inline constexpr Field receive_packets{288, 32};
inline constexpr Field xmit_wait{320, 32};
}  // namespace port_counters

namespace port_counters_extended {
inline constexpr Field select2{32, 32};
inline constexpr Field xmit_data{64, 64};
inline constexpr Field receive_data{128, 64};
inline constexpr Field xmit_packets{192, 64};
inline constexpr Field receive_packets{256, 64};
inline constexpr Field unicast_xmit_packets{320, 64};
inline constexpr Field unicast_receive_packets{384, 64};
inline constexpr Field multicast_xmit_packets{448, 64};
inline constexpr Field multicast_receive_packets{512, 64};
inline constexpr Field symbol_error{576, 64};
inline constexpr Field link_error_recovery{640, 64};
inline constexpr Field link_downed{704, 64};
inline constexpr Field receive_errors{768, 64};
inline constexpr Field receive_remote_physical_errors{832, 64};
inline constexpr Field receive_switch_relay_errors{896, 64};
inline constexpr Field xmit_discards{960, 64};
inline constexpr Field xmit_constraint_errors{1024, 64};
inline constexpr Field receive_constraint_errors{1088, 64};
inline constexpr Field local_link_integrity_errors{1152, 64};
inline constexpr Field excessive_buffer_overrun_errors{1216, 64};
inline constexpr Field vl15_dropped{1280, 64};
inline constexpr Field xmit_wait{1344, 64};
inline constexpr Field qp1_dropped{1408, 64};
}  // namespace port_counters_extended

namespace xmit_discard_details {
inline constexpr Field inactive{32, 16};
inline constexpr Field neighbor_mtu{48, 16};
inline constexpr Field life_time{64, 16};
inline constexpr Field hoq_life_time{80, 16};
}  // namespace xmit_discard_details

namespace receive_error_details {
inline constexpr Field local_physical{32, 16};
inline constexpr Field malformed{48, 16};
inline constexpr Field buffer_overrun{64, 16};
inline constexpr Field dlid_mapping{80, 16};
inline constexpr Field vl_mapping{96, 16};
inline constexpr Field looping{112, 16};
}  // namespace receive_error_details

// PortXmitDataSL, PortRcvDataSL
namespace data_sl {
inline constexpr u32 levels = 16;
[[nodiscard]] constexpr Field words(u32 sl) { return Field{32, 32}.shifted(sl * 32); }
}  // namespace data_sl

namespace extended_speeds_counters {
inline constexpr Field select{64, 64};
inline constexpr Field sync_header_errors{128, 16};
inline constexpr Field unknown_blocks{144, 16};
inline constexpr u32 lanes = 12;
[[nodiscard]] constexpr Field lane_errors(u32 lane) { return Field{160, 16}.shifted(lane * 16); }
[[nodiscard]] constexpr Field fec_correctable(u32 lane) { return Field{352, 32}.shifted(lane * 32); }
[[nodiscard]] constexpr Field fec_uncorrectable(u32 lane) { return Field{736, 32}.shifted(lane * 32); }
}  // namespace extended_speeds_counters

enum class SampleStatus : u8 { done = 0, waiting = 1, sampling = 2 };

// What a sampled counter counts.
enum class SampleSelect : u16 {
  nothing = 0,
  xmit_data = 1,
  receive_data = 2,
  xmit_packets = 3,
  receive_packets = 4,
  xmit_wait = 5,
};

namespace samples_control {
inline constexpr u32 counters = 15;
inline constexpr Field op_code{0, 8};
inline constexpr Field port_select{8, 8};
inline constexpr Field tick{16, 8};
inline constexpr Field counter_width{29, 3};  // 4: 32 bits
inline constexpr Field counter_mask0{34, 3};
inline constexpr Field counter_masks_1_to_9{37, 27};
inline constexpr Field counter_masks_10_to_14{65, 15};
inline constexpr Field mechanisms{80, 8};
inline constexpr Field status{94, 2};
inline constexpr Field option_mask{96, 64};
inline constexpr Field vendor_mask{160, 64};
inline constexpr Field start{224, 32};     // ticks
inline constexpr Field interval{256, 32};  // ticks
inline constexpr Field tag{288, 16};
[[nodiscard]] constexpr Field select(u32 counter) { return Field{304, 16}.shifted(counter * 16); }
}  // namespace samples_control

namespace samples_result {
inline constexpr Field tag{0, 16};
inline constexpr Field status{30, 2};
[[nodiscard]] constexpr Field counter(u32 index) { return Field{32, 32}.shifted(index * 32); }
}  // namespace samples_result

}  // namespace softib::wire
