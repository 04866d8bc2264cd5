// The records of subnet administration: for each component, in the order of the component mask, where its bits lie. One
// comparison serves all records.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "wire/field.h"

namespace softib::sm::sa {

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

// Upper byte of the status.
enum class SaStatus : u16 {
  ok = 0,
  no_resources = 0x100,
  request_invalid = 0x200,
  no_records = 0x300,
  too_many_records = 0x400,
  invalid_gid = 0x500,
  insufficient_components = 0x600,
  request_denied = 0x700,
};

enum class Role : u8 {
  equal,     // the same bits
  any,       // reserved, or not a property of a record
  selector,  // says how the component after it is compared
  rate,      // after a selector; rates are compared by what they carry, not by their code
  number,    // after a selector
  bits,      // those that are asked for are set
};

struct Component {
  u16 at;
  u16 width;
  Role role = Role::equal;
};

struct Layout {
  RecordType type;
  u16 size;      // in bytes, a multiple of 8
  bool has_lid;  // the first component is the LID that the record is kept by
  std::span<const Component> components;
};

[[nodiscard]] const Layout* find_layout(RecordType type);

// How two values go together.
enum class Selector : u8 { greater = 0, less = 1, exactly = 2, largest = 3 };
[[nodiscard]] bool satisfies(Selector selector, u64 asked, u64 actual);
// Mb/s of a rate code; 0 for one that doesn't exist.
[[nodiscard]] u32 rate_mbps(u8 code);
// The next slower rate code; 0: there is none.
[[nodiscard]] u8 slower_rate(u8 code);

// `bits`: capability masks and the like match when all bits that are asked for are set; else they must be equal.
[[nodiscard]] bool matches(const Layout& layout, std::span<const u8> query, u64 mask, std::span<const u8> record,
                           bool bits = true);

[[nodiscard]] constexpr u64 bit(u32 component) { return u64{1} << component; }

namespace lid_record {  // NodeRecord and other records by LID
inline constexpr wire::Field lid{0, 16};
}  // namespace lid_record

namespace path {
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
}  // namespace path

namespace member {
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
}  // namespace member

namespace service {
inline constexpr u32 gid_at = 8;  // bytes
inline constexpr wire::Field id{0, 64}, pkey{192, 16}, lease{224, 32};
inline constexpr u32 size = 176;
enum Mask : u32 { has_id = 0, has_gid = 1, has_pkey = 2, has_lease = 4 };
}  // namespace service

namespace inform {
inline constexpr u32 size = 36;  // bytes, of InformInfo
inline constexpr u32 gid_at = 0;
inline constexpr wire::Field first_lid{128, 16}, last_lid{144, 16}, generic{176, 8}, subscribe{184, 8}, type{192, 16},
    trap{208, 16}, qpn{224, 24}, response_time{251, 5}, producer{264, 24};
inline constexpr u32 in_record_at = 24;  // bytes
}  // namespace inform

}  // namespace softib::sm::sa
