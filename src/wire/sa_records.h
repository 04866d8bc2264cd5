// The records of subnet administration that end nodes ask for as well: where their fields lie, and the bits of the
// component mask (IBTA vol. 1, 15.2.5).
#pragma once

#include <algorithm>

#include "wire/mad.h"

namespace softib::wire {

// What a port wants of a multicast group; a bit each.
enum class JoinState : u8 { full = 1, send_only = 4, send_only_full = 8 };

enum class RecordType : u16 {
  class_port_info = 0x01,
  notice = 0x02,
  inform_info = 0x03,
  node = 0x11,
  port_info = 0x12,
  sl_to_vl = 0x13,
  switch_info = 0x14,
  linear_forwarding = 0x15,
  multicast_forwarding = 0x17,
  sm_info = 0x18,
  link = 0x20,
  guid_info = 0x30,
  service = 0x31,
  pkey_table = 0x33,
  path = 0x35,
  vl_arbitration = 0x36,
  multicast_member = 0x38,
  trace = 0x39,
  multi_path = 0x3a,
  inform_info_record = 0xf3,
};

// How the component after it is compared.
enum class Selector : u8 { greater = 0, less = 1, exactly = 2, largest = 3 };

namespace sa {
inline constexpr u8 class_version = 2;
[[nodiscard]] constexpr u64 bit(u32 component) { return u64{1} << component; }

struct Question {
  Method method = Method::get;
  RecordType type = RecordType::node;
  u64 transaction = 0;
  u64 mask = 0;  // of components
  std::span<const u8> record;
};

// Into a MAD of zeros; what is longer than a MAD has room for is left out.
inline void write_question(std::span<u8> mad, const Question& question) {
  set(mad, header::base_version, 1);
  set(mad, header::mgmt_class, static_cast<u8>(MgmtClass::subn_adm));
  set(mad, header::class_version, class_version);
  set(mad, header::method, static_cast<u8>(question.method));
  set(mad, header::transaction, question.transaction);
  set(mad, header::attribute, static_cast<u16>(question.type));
  set(mad, component_mask, question.mask);
  std::copy_n(question.record.begin(), std::min<std::size_t>(question.record.size(), data_size), mad.begin() + data_at);
}
}  // namespace sa

namespace path_record {
inline constexpr u32 size = 64;                  // bytes
inline constexpr u32 dgid_at = 8, sgid_at = 24;  // bytes
inline constexpr wire::Field service_id{0, 64}, dlid{320, 16}, slid{336, 16}, flow_label{356, 20}, hop_limit{376, 8},
    traffic_class{384, 8}, reversible{392, 1}, count{393, 7}, pkey{400, 16}, qos_class{416, 12}, sl{428, 4},
    mtu_selector{432, 2}, mtu{434, 6}, rate_selector{440, 2}, rate{442, 6}, life_selector{448, 2}, life{450, 6},
    preference{456, 8};
enum Mask : u32 {
  has_service_msb = 0,
  has_service_lsb = 1,
  has_dgid = 2,
  has_sgid = 3,
  has_dlid = 4,
  has_slid = 5,
  has_flow = 8,
  has_hop = 9,
  has_class = 10,
  has_reversible = 11,
  has_count = 12,
  has_pkey = 13,
  has_qos_class = 14,
  has_sl = 15,
  has_mtu_selector = 16,
  has_mtu = 17,
  has_rate_selector = 18,
  has_rate = 19,
  has_life_selector = 20,
  has_life = 21
};
}  // namespace path_record

namespace member_record {
inline constexpr u32 size = 56;                      // bytes
inline constexpr u32 mgid_at = 0, port_gid_at = 16;  // bytes
inline constexpr wire::Field qkey{256, 32}, mlid{288, 16}, mtu_selector{304, 2}, mtu{306, 6}, traffic_class{312, 8},
    pkey{320, 16}, rate_selector{336, 2}, rate{338, 6}, life_selector{344, 2}, life{346, 6}, sl{352, 4},
    flow_label{356, 20}, hop_limit{376, 8}, scope{384, 4}, join_state{388, 4}, proxy{392, 1};
enum Mask : u32 {
  has_mgid = 0,
  has_port_gid = 1,
  has_qkey = 2,
  has_mlid = 3,
  has_mtu_selector = 4,
  has_mtu = 5,
  has_class = 6,
  has_pkey = 7,
  has_rate_selector = 8,
  has_rate = 9,
  has_life_selector = 10,
  has_life = 11,
  has_sl = 12,
  has_flow = 13,
  has_hop = 14,
  has_scope = 15,
  has_join_state = 16,
  has_proxy = 17
};
}  // namespace member_record

namespace service_record {
inline constexpr u32 size = 176;                                // bytes
inline constexpr u32 gid_at = 8, name_at = 48, name_size = 64;  // bytes
inline constexpr u32 data8_at = name_at + name_size;            // bytes; 16 of 8 bits, then 8 of 16 bits, 4 of 32
inline constexpr u32 data16_at = data8_at + 16, data32_at = data16_at + 16;
inline constexpr wire::Field id{0, 64}, pkey{192, 16}, lease{224, 32};
enum Mask : u32 {
  has_id = 0,
  has_gid = 1,
  has_pkey = 2,
  has_lease = 4,
  has_name = 6,
  has_data16 = 23,
  has_data32 = 31
};
}  // namespace service_record

}  // namespace softib::wire
