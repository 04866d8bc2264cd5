// Half, bfloat16 and the two 8-bit floating types, element by element. The vector kernels do the same to many at once.
//
//             sign exponent mantissa  bias   largest   above it
//   half         1        5       10    15     65504   infinity
//   bfloat16     1        8        7   127   3.39e38   infinity
//   f8e4m3       1        4        3     7       448   448: has no infinity, and 0x7f is its only NaN
//   f8e5m2       1        5        2    15     57344   57344: saturates, although it has an infinity
//
// From float, values are rounded to the nearest, ties to even. The 8-bit types saturate as CUDA's do by default
// (__NV_SATFINITE): infinity becomes the largest value too, and a NaN loses its sign.
#pragma once

#include <bit>

#include "base/types.h"

namespace softib::coll {

enum class Overflow : u8 { to_infinity, saturates };

// What tells one narrow format from another. The smallest step is 2^(1 - bias - mantissa_bits).
struct NarrowFormat {
  int mantissa_bits;
  int bias;
  u32 sign;      // its bit
  u32 largest;   // bits of the largest finite value
  u32 nan;       // bits of a quiet NaN
  u32 infinity;  // bits; what is above, or equals `nan` where there is none, is NaN
  Overflow overflow;

  // A float whose last mantissa bit is worth the format's smallest step. Adding it to a value below the normal range
  // rounds that value to steps, and leaves their number in the low bits.
  [[nodiscard]] constexpr u32 step_magic() const { return static_cast<u32>(127 + 24 - bias - mantissa_bits) << 23; }
  [[nodiscard]] constexpr int shift() const { return 23 - mantissa_bits; }
  [[nodiscard]] constexpr u32 rebias() const { return static_cast<u32>(127 - bias) << 23; }
  // The smallest float that is in the normal range of the format.
  [[nodiscard]] constexpr u32 first_normal() const { return static_cast<u32>(128 - bias) << 23; }
};

inline constexpr NarrowFormat half_format{10, 15, 0x8000, 0x7bff, 0x7e00, 0x7c00, Overflow::to_infinity};
inline constexpr NarrowFormat e4m3_format{3, 7, 0x80, 0x7e, 0x7f, 0x7f, Overflow::saturates};
inline constexpr NarrowFormat e5m2_format{2, 15, 0x80, 0x7b, 0x7e, 0x7c, Overflow::saturates};

// Not for bfloat16, whose small values are small floats too.
[[nodiscard]] constexpr u32 narrow_bits(const NarrowFormat& format, float value) {
  const u32 bits = std::bit_cast<u32>(value);
  const u32 magnitude = bits & 0x7fffffff;
  const u32 sign = bits >> 31 != 0 ? format.sign : 0;
  if (magnitude > 0x7f800000) {
    if (format.overflow == Overflow::saturates) return format.nan;
    return sign | format.nan | (magnitude & 0x7fffff) >> format.shift();
  }
  u32 rounded = 0;
  if (magnitude < format.first_normal()) {
    const float steps = std::bit_cast<float>(magnitude) + std::bit_cast<float>(format.step_magic());
    rounded = std::bit_cast<u32>(steps) - format.step_magic();
  } else {
    const u32 based = magnitude - format.rebias();
    const u32 half_step = (1U << (format.shift() - 1)) - 1 + (based >> format.shift() & 1);
    rounded = (based + half_step) >> format.shift();
  }
  if (rounded > format.largest) rounded = format.overflow == Overflow::saturates ? format.largest : format.infinity;
  return sign | rounded;
}

[[nodiscard]] constexpr float widened(const NarrowFormat& format, u32 bits) {
  const u32 magnitude = bits & (format.sign - 1);
  const u32 sign = (bits & format.sign) != 0 ? 0x80000000 : 0;
  u32 wide = 0;
  if (magnitude >= format.infinity) {
    const u32 payload = format.infinity == format.nan ? 1U << 22 : (magnitude - format.infinity) << format.shift();
    wide = 0x7f800000 | payload | (payload != 0 ? 1U << 22 : 0);
  } else if (magnitude >> format.mantissa_bits == 0) {
    const float steps = std::bit_cast<float>(format.step_magic() + magnitude);
    wide = std::bit_cast<u32>(steps - std::bit_cast<float>(format.step_magic()));
  } else {
    wide = (magnitude << format.shift()) + format.rebias();
  }
  return std::bit_cast<float>(sign | wide);
}

[[nodiscard]] constexpr u16 to_half(float value) { return static_cast<u16>(narrow_bits(half_format, value)); }
[[nodiscard]] constexpr float from_half(u16 bits) { return widened(half_format, bits); }
[[nodiscard]] constexpr u8 to_e4m3(float value) { return static_cast<u8>(narrow_bits(e4m3_format, value)); }
[[nodiscard]] constexpr float from_e4m3(u8 bits) { return widened(e4m3_format, bits); }
[[nodiscard]] constexpr u8 to_e5m2(float value) { return static_cast<u8>(narrow_bits(e5m2_format, value)); }
[[nodiscard]] constexpr float from_e5m2(u8 bits) { return widened(e5m2_format, bits); }

[[nodiscard]] constexpr u16 to_bfloat16(float value) {
  const u32 bits = std::bit_cast<u32>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<u16>(bits >> 16 | 0x40);
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
[[nodiscard]] constexpr float from_bfloat16(u16 bits) { return std::bit_cast<float>(static_cast<u32>(bits) << 16); }

}  // namespace softib::coll
