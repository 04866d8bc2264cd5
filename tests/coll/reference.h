// Element types and operators done plainly: one element at a time, by the definitions of the formats and nothing that
// src/coll has.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "coll/types.h"

namespace softib::coll::test {

struct FormatRow {
  int mantissa_bits;
  int bias;
  int bits;
  double largest;
  bool has_infinity;
  bool saturates;
};

inline constexpr FormatRow half_row{10, 15, 16, 65504, true, false};
inline constexpr FormatRow e4m3_row{3, 7, 8, 448, false, true};
inline constexpr FormatRow e5m2_row{2, 15, 8, 57344, true, true};
// Its largest value is float's with eight bits of mantissa.
inline constexpr FormatRow bfloat16_row{7, 127, 16, 0x1.fep127, true, false};

inline const FormatRow& narrow_row(DataType type) {
  switch (type) {
    case DataType::float16:
      return half_row;
    case DataType::bfloat16:
      return bfloat16_row;
    case DataType::float8_e4m3:
      return e4m3_row;
    default:
      return e5m2_row;
  }
}

// The value of a bit pattern, by exponent and mantissa.
inline double decoded(const FormatRow& format, u32 bits) {
  const u32 sign = bits >> (format.bits - 1);
  const u32 mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const int exponent_bits = format.bits - 1 - format.mantissa_bits;
  const u32 exponent = bits >> format.mantissa_bits & ((1U << exponent_bits) - 1);
  const bool top = exponent == (1U << exponent_bits) - 1;
  double value = 0;
  if (top && format.has_infinity)
    value = mantissa == 0 ? HUGE_VAL : std::nan("");
  else if (top && mantissa == (1U << format.mantissa_bits) - 1)
    value = std::nan("");
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  else
    value = std::ldexp(mantissa + (1U << format.mantissa_bits),
                       static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  return sign != 0 ? -value : value;
}

// The nearest bit pattern, ties to even.
inline u32 encoded(const FormatRow& format, double value) {
  const u32 sign = std::signbit(value) ? 1U << (format.bits - 1) : 0;
  const int exponent_bits = format.bits - 1 - format.mantissa_bits;
  const u32 infinity = ((1U << exponent_bits) - 1) << format.mantissa_bits;
  if (std::isnan(value)) return format.has_infinity ? infinity + 1 : (1U << (format.bits - 1)) - 1;
  const double magnitude = std::fabs(value);
  const int exponent =
      std::max(magnitude == 0 || std::isinf(magnitude) ? -4000 : std::ilogb(magnitude), 1 - format.bias);
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const double rounded = std::ldexp(steps, exponent - format.mantissa_bits);
  if (std::isinf(magnitude) || rounded > format.largest) {
    if (format.saturates) return sign | encoded(format, format.largest);
    return sign | infinity;
  }
  // Steps of the lowest exponent count from zero, those of the others from their power of two.
  return sign | ((static_cast<u32>(exponent - 1 + format.bias) << format.mantissa_bits) + static_cast<u32>(steps));
}

template <typename T>
T element(std::span<const std::byte> bytes, u64 i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

template <typename T>
void set_element(std::span<std::byte> bytes, u64 i, T value) {
  std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
}

template <typename T>
T combined(Op op, T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, u64, T>;
  switch (op) {
    case Op::prod:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Op::max:
    case Op::min:
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
        if (a == 0 && b == 0) return std::signbit(a) == (op == Op::min) ? a : b;
      }
      return (a < b) == (op == Op::min) ? a : b;
    default:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

template <typename T>
T finished(Op op, T value, u32 ranks) {
  if (op != Op::avg || ranks == 1) return value;
  if constexpr (std::is_same_v<T, u64>) return value / ranks;
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<i64>(value) / static_cast<i64>(ranks));
  return value / static_cast<T>(ranks);
}

using Inputs = std::vector<std::span<const std::byte>>;

template <typename T>
void reduce_elements(Op op, std::span<std::byte> out, const Inputs& inputs, u64 count, u32 ranks) {
  for (u64 i = 0; i < count; ++i) {
    T value = element<T>(inputs[0], i);
    for (std::size_t k = 1; k < inputs.size(); ++k) value = combined(op, value, element<T>(inputs[k], i));
    set_element(out, i, finished(op, value, ranks));
  }
}

inline u32 element_bits(DataType type, std::span<const std::byte> bytes, u64 i) {
  return size_of(type) == 1 ? element<u8>(bytes, i) : element<u16>(bytes, i);
}

inline void set_element_bits(DataType type, std::span<std::byte> bytes, u64 i, u32 bits) {
  if (size_of(type) == 1)
    set_element(bytes, i, static_cast<u8>(bits));
  else
    set_element(bytes, i, static_cast<u16>(bits));
}

// An infinity that max or min chose is no overflow: it stays what it was.
inline u32 encoded_extreme(const FormatRow& format, float value) {
  FormatRow kept = format;
  kept.saturates = false;
  return encoded(kept, value);
}

inline void reduce_narrow(DataType type, Op op, std::span<std::byte> out, const Inputs& inputs, u64 count, u32 ranks) {
  const FormatRow& format = narrow_row(type);
  if (inputs.size() == 1 && ranks == 1) std::copy(inputs[0].begin(), inputs[0].end(), out.begin());
  for (u64 i = 0; i < count && (inputs.size() > 1 || ranks > 1); ++i) {
    auto value = static_cast<float>(decoded(format, element_bits(type, inputs[0], i)));
    for (std::size_t k = 1; k < inputs.size(); ++k)
      value = combined(op, value, static_cast<float>(decoded(format, element_bits(type, inputs[k], i))));
    const bool extreme = op == Op::max || op == Op::min;
    value = finished(op, value, ranks);
    set_element_bits(type, out, i, extreme ? encoded_extreme(format, value) : encoded(format, value));
  }
}

inline void reduce(DataType type, Op op, std::span<std::byte> out, const Inputs& inputs, u64 count, u32 ranks) {
  switch (type) {
    case DataType::int8:
      return reduce_elements<std::int8_t>(op, out, inputs, count, ranks);
    case DataType::uint8:
      return reduce_elements<u8>(op, out, inputs, count, ranks);
    case DataType::int32:
      return reduce_elements<i32>(op, out, inputs, count, ranks);
    case DataType::uint32:
      return reduce_elements<u32>(op, out, inputs, count, ranks);
    case DataType::int64:
      return reduce_elements<i64>(op, out, inputs, count, ranks);
    case DataType::uint64:
      return reduce_elements<u64>(op, out, inputs, count, ranks);
    case DataType::float32:
      return reduce_elements<float>(op, out, inputs, count, ranks);
    case DataType::float64:
      return reduce_elements<double>(op, out, inputs, count, ranks);
    default:
      return reduce_narrow(type, op, out, inputs, count, ranks);
  }
}

// Same bits, or both NaN.
inline bool same(DataType type, std::span<const std::byte> a, std::span<const std::byte> b, u64 i) {
  const u64 size = size_of(type);
  if (std::memcmp(a.data() + i * size, b.data() + i * size, size) == 0) return true;
  if (!is_floating(type)) return false;
  if (type == DataType::float32) return std::isnan(element<float>(a, i)) && std::isnan(element<float>(b, i));
  if (type == DataType::float64) return std::isnan(element<double>(a, i)) && std::isnan(element<double>(b, i));
  const FormatRow& format = narrow_row(type);
  return std::isnan(decoded(format, element_bits(type, a, i))) && std::isnan(decoded(format, element_bits(type, b, i)));
}

}  // namespace softib::coll::test
