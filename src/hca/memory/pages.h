// Whole pages and ranges of them.
#pragma once

#include <algorithm>

#include "base/types.h"
#include "hca/memory.h"

namespace softib::hca {

inline constexpr u64 page_size = 4096;
inline constexpr u64 huge_page_size = u64{2} << 20;

// No user page lies at or above this, unless a program asks for it by name on a machine with five-level tables.
inline constexpr u64 address_space_end = u64{1} << 47;

constexpr u64 page_floor(u64 address) { return address & ~(page_size - 1); }
constexpr u64 page_ceiling(u64 address) { return page_floor(address + page_size - 1); }

inline AddressRange intersect(AddressRange a, AddressRange b) {
  const u64 begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// The pages that a range touches. EINVAL when it runs over the end of the address space, as ib_umem_get says.
inline Result<AddressRange> pages_of(u64 address, u64 length) {
  const u64 end = address + length;
  if (end < address || page_ceiling(end) < end) return fail(EINVAL);
  return AddressRange{page_floor(address), page_ceiling(end)};
}

}  // namespace softib::hca
