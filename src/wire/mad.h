// The common header of management datagrams, and what its values mean (IBTA vol. 1, 13.4).
#pragma once

#include <array>
#include <span>

#include "base/types.h"
#include "wire/field.h"

namespace softib::wire {

inline constexpr u32 mad_size = 256;
using Mad = std::array<u8, mad_size>;

enum class MgmtClass : u8 {
  subn_lid = 0x01,
  subn_adm = 0x03,
  performance = 0x04,
  baseboard = 0x05,
  device = 0x06,
  communication = 0x07,
  vendor_first = 0x09,       // to 0x0f: the whole MAD is the vendor's
  mellanox = 0x0a,
  vendor_rmpp_first = 0x30,  // to 0x4f: with OUI and RMPP
  subn_directed = 0x81,
};

enum class Method : u8 {
  get = 0x01,
  set = 0x02,
  send = 0x03,
  trap = 0x05,
  report = 0x06,
  trap_repress = 0x07,
  get_table = 0x12,
  get_trace_table = 0x13,
  get_multi = 0x14,
  remove = 0x15,  // SubnAdmDelete
  get_resp = 0x81,
  report_resp = 0x86,
  get_table_resp = 0x92,
  get_multi_resp = 0x94,
  remove_resp = 0x95,
};
inline constexpr u8 response_bit = 0x80;

// Low bits of the status that all classes share; class-specific ones lie above.
enum class MadStatus : u16 {
  ok = 0,
  busy = 1,
  redirect = 2,
  bad_version = 1 << 2,
  bad_method = 2 << 2,
  bad_attribute = 3 << 2,  // method and attribute don't go together
  bad_value = 7 << 2,
};
inline constexpr u16 directed_bit = 0x8000;  // of the status, in directed SMPs: on the way back

namespace header {
inline constexpr Field base_version{0, 8};
inline constexpr Field mgmt_class{8, 8};
inline constexpr Field class_version{16, 8};
inline constexpr Field method{24, 8};
inline constexpr Field status{32, 16};
inline constexpr Field hop_pointer{48, 8};  // directed SMPs
inline constexpr Field hop_count{56, 8};
inline constexpr Field transaction{64, 64};
inline constexpr Field attribute{128, 16};
inline constexpr Field modifier{160, 32};
}  // namespace header

// Subnet management packets.
namespace smp {
inline constexpr Field m_key{192, 64};
inline constexpr Field dr_slid{256, 16};
inline constexpr Field dr_dlid{272, 16};
inline constexpr u32 data_at = 64;  // bytes
inline constexpr u32 data_size = 64;
inline constexpr u32 initial_path_at = 128;
inline constexpr u32 return_path_at = 192;
inline constexpr u32 most_hops = 63;
}  // namespace smp

// Performance management.
namespace perf {
inline constexpr u32 data_at = 64;
inline constexpr u32 data_size = 192;
}  // namespace perf

// Subnet administration, and every class with RMPP: the RMPP header lies at byte 24.
namespace sa {
inline constexpr Field sm_key{288, 64};
inline constexpr Field attribute_offset{352, 16};  // in units of 8 bytes
inline constexpr Field component_mask{384, 64};
inline constexpr u32 data_at = 56;
inline constexpr u32 data_size = 200;
}  // namespace sa

[[nodiscard]] inline MgmtClass class_of(std::span<const u8> mad) {
  return static_cast<MgmtClass>(get(mad, header::mgmt_class));
}
[[nodiscard]] inline Method method_of(std::span<const u8> mad) { return static_cast<Method>(get(mad, header::method)); }
[[nodiscard]] inline u16 attribute_of(std::span<const u8> mad) { return static_cast<u16>(get(mad, header::attribute)); }
[[nodiscard]] inline bool is_smp(std::span<const u8> mad) {
  return class_of(mad) == MgmtClass::subn_lid || class_of(mad) == MgmtClass::subn_directed;
}
[[nodiscard]] inline bool is_response(std::span<const u8> mad) {
  return (get(mad, header::method) & response_bit) != 0 || method_of(mad) == Method::trap_repress;
}

inline constexpr u16 permissive_lid = 0xffff;
inline constexpr u16 first_multicast_lid = 0xc000;

}  // namespace softib::wire
