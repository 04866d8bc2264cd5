// What may be asked of a memory region.
#pragma once

#include "base/types.h"
#include "hca/rules/bits.h"

namespace softib::hca {

// EINVAL: a remote right to write without the local one, or a flag that nobody knows.
[[nodiscard]] Result<void> check_access(AccessBits access);

// EINVAL: an empty range, or one that wraps around, in user addresses or in the region's own.
[[nodiscard]] Result<void> check_range(AccessBits access, u64 address, u64 length, u64 iova);

// The key of index `index` when its tag is `tag`.
[[nodiscard]] constexpr u32 make_key(u32 index, u8 tag) { return index << 8 | tag; }

}  // namespace softib::hca
