// Bits of the verbs interface that the device model decides by. Values as in infiniband/verbs.h, which programs include
// and this side of the kernel boundary does not.
#pragma once

#include <type_traits>

#include "base/types.h"

namespace softib::hca {

// enum ibv_qp_attr_mask
enum class QpAttr : u32 {
  none = 0,
  state = 1U << 0,
  cur_state = 1U << 1,
  en_sqd_async_notify = 1U << 2,
  access_flags = 1U << 3,
  pkey_index = 1U << 4,
  port = 1U << 5,
  qkey = 1U << 6,
  av = 1U << 7,
  path_mtu = 1U << 8,
  timeout = 1U << 9,
  retry_count = 1U << 10,
  rnr_retry = 1U << 11,
  rq_psn = 1U << 12,
  max_rd_atomic = 1U << 13,
  alt_path = 1U << 14,
  min_rnr_timer = 1U << 15,
  sq_psn = 1U << 16,
  max_dest_rd_atomic = 1U << 17,
  path_mig_state = 1U << 18,
  cap = 1U << 19,
  dest_qpn = 1U << 20,
  rate_limit = 1U << 25,
};

// enum ibv_access_flags
enum class AccessBits : u32 {
  none = 0,
  local_write = 1U << 0,
  remote_write = 1U << 1,
  remote_read = 1U << 2,
  remote_atomic = 1U << 3,
  mw_bind = 1U << 4,
  zero_based = 1U << 5,
  on_demand = 1U << 6,
  hugetlb = 1U << 7,
  flush_global = 1U << 8,
  flush_persistent = 1U << 9,
  optional_range = 0x3ff0'0000,  // IBV_ACCESS_OPTIONAL_RANGE: a device may ignore these (relaxed ordering is one)
};

// enum ib_uverbs_rereg_mr_flags
enum class RemapFlag : u32 { none = 0, translation = 1U << 0, pd = 1U << 1, access = 1U << 2 };

// enum ibv_srq_attr_mask
enum class SrqAttr : u32 { none = 0, max_wr = 1U << 0, limit = 1U << 1 };

template <typename T>
inline constexpr bool is_bits = std::is_same_v<T, QpAttr> || std::is_same_v<T, AccessBits> ||
                                std::is_same_v<T, RemapFlag> || std::is_same_v<T, SrqAttr>;

template <typename T>
requires is_bits<T>
[[nodiscard]] constexpr T operator|(T a, T b) { return static_cast<T>(static_cast<u32>(a) | static_cast<u32>(b)); }

template <typename T>
requires is_bits<T>
[[nodiscard]] constexpr T operator&(T a, T b) { return static_cast<T>(static_cast<u32>(a) & static_cast<u32>(b)); }

template <typename T>
requires is_bits<T>
[[nodiscard]] constexpr T operator~(T a) { return static_cast<T>(~static_cast<u32>(a)); }

template <typename T>
requires is_bits<T>
[[nodiscard]] constexpr bool has(T set, T bit) { return (set & bit) == bit; }

template <typename T>
requires is_bits<T>
[[nodiscard]] constexpr bool any(T set) { return static_cast<u32>(set) != 0; }

}  // namespace softib::hca
