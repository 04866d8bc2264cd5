// InfiniBand's integers are big-endian, this machine's little-endian.
#pragma once

#include <bit>

#include "base/types.h"

namespace softib {

static_assert(std::endian::native == std::endian::little);

[[nodiscard]] constexpr u16 big_endian(u16 value) { return __builtin_bswap16(value); }
[[nodiscard]] constexpr u32 big_endian(u32 value) { return __builtin_bswap32(value); }
[[nodiscard]] constexpr u64 big_endian(u64 value) { return __builtin_bswap64(value); }

}  // namespace softib
