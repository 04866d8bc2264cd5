// The records of subnet administration: for each component, in the order of the component mask, where its bits lie. One
// comparison serves all records.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "wire/field.h"
#include "wire/sa_records.h"

namespace softib::sm::sa {

using wire::RecordType;
using wire::Selector;
using wire::sa::bit;
namespace path = wire::path_record;
namespace member = wire::member_record;

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

[[nodiscard]] bool satisfies(Selector selector, u64 asked, u64 actual);
// Mb/s of a rate code; 0 for one that doesn't exist.
[[nodiscard]] u32 rate_mbps(u8 code);
// The next slower rate code; 0: there is none.
[[nodiscard]] u8 slower_rate(u8 code);

// `bits`: capability masks and the like match when all bits that are asked for are set; else they must be equal.
[[nodiscard]] bool matches(const Layout& layout, std::span<const u8> query, u64 mask, std::span<const u8> record,
                           bool bits = true);

namespace lid_record {  // NodeRecord and other records by LID
inline constexpr wire::Field lid{0, 16};
}  // namespace lid_record

namespace service = wire::service_record;

namespace inform {
inline constexpr u32 size = 36;  // bytes, of InformInfo
inline constexpr u32 gid_at = 0;
inline constexpr wire::Field first_lid{128, 16}, last_lid{144, 16}, generic{176, 8}, subscribe{184, 8}, type{192, 16},
    trap{208, 16}, qpn{224, 24}, response_time{251, 5}, producer{264, 24};
inline constexpr u32 in_record_at = 24;  // bytes
}  // namespace inform

}  // namespace softib::sm::sa
