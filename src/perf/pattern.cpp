#include "perf/pattern.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "coll/narrow_floats.h"

namespace softib::perf {

namespace {

using coll::DataType;
using coll::Op;

constexpr u64 block = 512;  // elements at a time

u64 mixed(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// One for each element, the same on all ranks.
u64 key_of(u64 seed, u64 index) { return mixed(index * 0x9e3779b97f4a7c15 + mixed(seed + 1)); }
// One for each element and rank.
u64 draw(u64 key, u32 rank) { return mixed(key + (rank + 1) * 0xd1342543de82ef95); }

// How much room a type has: the largest magnitude that sums of whole units may reach, and the units' exponents.
struct Room {
  i64 limit;
  int least_exponent;
  int exponents;  // how many
};

constexpr Room room_of(DataType type) {
  switch (type) {
    case DataType::int8:
      return {127, 0, 1};
    case DataType::uint8:
      return {255, 0, 1};
    case DataType::int32:
      return {std::numeric_limits<i32>::max(), 0, 1};
    case DataType::uint32:
      return {std::numeric_limits<u32>::max(), 0, 1};
    case DataType::int64:
    case DataType::uint64:
      return {i64{1} << 62, 0, 1};
    case DataType::float16:
      return {1 << 11, -3, 7};
    case DataType::float32:
      return {1 << 24, -40, 64};
    case DataType::float64:
      return {i64{1} << 53, -300, 512};
    case DataType::bfloat16:
      return {1 << 8, -40, 64};
    case DataType::float8_e4m3:
      return {1 << 4, 0, 4};
    case DataType::float8_e5m2:
      return {1 << 3, -3, 8};
  }
  return {};
}

constexpr int mantissa_bits_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return 10;
    case DataType::float32:
      return 23;
    case DataType::float64:
      return 52;
    case DataType::bfloat16:
      return 7;
    case DataType::float8_e4m3:
      return 3;
    case DataType::float8_e5m2:
      return 2;
    default:
      return 0;
  }
}

constexpr bool is_signed(DataType type) {
  return type != DataType::uint8 && type != DataType::uint32 && type != DataType::uint64;
}

// A rank's whole number of units, such that all ranks' magnitudes together don't pass `limit`.
struct Shares {
  i64 limit;
  u32 ranks;
  bool negative_too;

  [[nodiscard]] i64 of(u64 key, u32 rank) const {
    const u64 bits = draw(key, rank);
    const auto each = static_cast<u64>(limit / ranks);
    u64 magnitude = (bits >> 1) % (each + 1);
    // With more ranks than units, some give one and the others nothing.
    if (each == 0) magnitude = (rank + (key >> 8)) % ranks < static_cast<u64>(limit) ? 1 : 0;
    const auto share = static_cast<i64>(magnitude);
    return negative_too && (bits & 1) != 0 ? -share : share;
  }
};

Shares shares_of(DataType type, Op op, u32 ranks) {
  const i64 limit = room_of(type).limit;
  return {op == Op::premul_sum ? limit / 2 : limit, ranks, is_signed(type)};
}

double unit_of(DataType type, u64 key) {
  const Room room = room_of(type);
  return std::ldexp(1.0, room.least_exponent + static_cast<int>((key >> 40) % static_cast<u64>(room.exponents)));
}

// 1.m times a sign, where m is as long as the type's mantissa, and never 0.
double random_mantissa(DataType type, u64 bits) {
  const u64 end = u64{1} << mantissa_bits_of(type);
  const u64 fraction = std::max<u64>(1, (bits >> 8) & (end - 1));
  const double value = 1 + static_cast<double>(fraction) / static_cast<double>(end);
  return (bits & 1) != 0 ? -value : value;
}

// A power of two with a sign; four ranks' are not 1. One rank brings the mantissa.
double factor_to(DataType type, u64 key, u32 ranks, u32 rank) {
  constexpr u64 active = 4;
  const u64 bits = draw(key, rank);
  double value = (bits & 2) != 0 ? -1 : 1;
  if ((rank + (key >> 8)) % ranks < active) value *= (bits & 4) != 0 ? 2 : 0.5;
  return (key >> 20) % ranks == rank ? value * random_mantissa(type, bits) : value;
}

double anything_of(DataType type, u64 bits) {
  return std::ldexp(random_mantissa(type, bits), static_cast<int>((bits >> 1) % 9) - 4);
}

template <typename T>
void put(void* out, u64 index, T value) {
  std::memcpy(static_cast<std::byte*>(out) + index * sizeof(T), &value, sizeof(T));
}

void put_integer(DataType type, void* out, u64 index, u64 bits) {
  switch (coll::size_of(type)) {
    case 1:
      return put(out, index, static_cast<u8>(bits));
    case 4:
      return put(out, index, static_cast<u32>(bits));
    default:
      return put(out, index, bits);
  }
}

// `value` is the type's own, or for an average between two of them: rounded once, from float for what is shorter.
void put_float(DataType type, void* out, u64 index, double value) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case DataType::float64:
      return put(out, index, value);
    case DataType::float16:
      return put(out, index, coll::to_half(single));
    case DataType::bfloat16:
      return put(out, index, coll::to_bfloat16(single));
    case DataType::float8_e4m3:
      return put(out, index, coll::to_e4m3(single));
    case DataType::float8_e5m2:
      return put(out, index, coll::to_e5m2(single));
    default:
      return put(out, index, single);
  }
}

double quotient(DataType type, double sum, u32 ranks) {
  if (type == DataType::float64) return sum / ranks;
  return static_cast<float>(sum) / static_cast<float>(ranks);
}

// Integers as the type has them, in 64 bits.
i64 extended(DataType type, u64 bits) {
  switch (type) {
    case DataType::int8:
      return static_cast<std::int8_t>(bits);
    case DataType::uint8:
      return static_cast<u8>(bits);
    case DataType::int32:
      return static_cast<i32>(bits);
    case DataType::uint32:
      return static_cast<u32>(bits);
    default:
      return static_cast<i64>(bits);
  }
}

bool is_less(DataType type, u64 a, u64 b) {
  if (type == DataType::uint64) return a < b;
  return extended(type, a) < extended(type, b);
}

bool adds(Op op) { return op == Op::sum || op == Op::avg || op == Op::premul_sum; }

// One rank's part of an element, for each kind of type.

class Integers {
 public:
  using Value = u64;
  Integers(DataType type, Op op, u32 ranks)
      : type_(type), op_(op), ranks_(ranks), shares_(shares_of(type, op, ranks)) {}

  [[nodiscard]] Value part(u64 key, u32 rank) const {
    if (op_ == Op::avg) return static_cast<u64>(shares_.of(key, rank));
    // Odd, or a product of many would be 0.
    return op_ == Op::prod ? draw(key, rank) | 1 : draw(key, rank);
  }
  [[nodiscard]] Value combined(Value a, Value b, u32 rank) const {
    switch (op_) {
      case Op::prod:
        return a * b;
      case Op::max:
        return is_less(type_, a, b) ? b : a;
      case Op::min:
        return is_less(type_, b, a) ? b : a;
      case Op::premul_sum:
        return a + b * factor_of(rank);
      default:
        return a + b;
    }
  }
  void store(void* out, u64 index, u64 /*key*/, Value value) const { put_integer(type_, out, index, value); }
  void finish(void* out, u64 index, u64 /*key*/, Value value) const {
    if (op_ == Op::avg) value = static_cast<u64>(static_cast<i64>(value) / static_cast<i64>(ranks_));
    put_integer(type_, out, index, value);
  }

 private:
  DataType type_;
  Op op_;
  u32 ranks_;
  Shares shares_;
};

class Units {  // sums of floating types
 public:
  using Value = i64;
  Units(DataType type, Op op, u32 ranks) : type_(type), op_(op), ranks_(ranks), shares_(shares_of(type, op, ranks)) {}

  [[nodiscard]] Value part(u64 key, u32 rank) const { return shares_.of(key, rank); }
  [[nodiscard]] Value combined(Value a, Value b, u32 rank) const {
    return op_ == Op::premul_sum ? a + b * static_cast<i64>(factor_of(rank)) : a + b;
  }
  void store(void* out, u64 index, u64 key, Value value) const {
    put_float(type_, out, index, static_cast<double>(value) * unit_of(type_, key));
  }
  void finish(void* out, u64 index, u64 key, Value value) const {
    const double sum = static_cast<double>(value) * unit_of(type_, key);
    put_float(type_, out, index, op_ == Op::avg ? quotient(type_, sum, ranks_) : sum);
  }

 private:
  DataType type_;
  Op op_;
  u32 ranks_;
  Shares shares_;
};

class Reals {  // products and extremes of floating types
 public:
  using Value = double;
  Reals(DataType type, Op op, u32 ranks) : type_(type), op_(op), ranks_(ranks) {}

  [[nodiscard]] Value part(u64 key, u32 rank) const {
    return op_ == Op::prod ? factor_to(type_, key, ranks_, rank) : anything_of(type_, draw(key, rank));
  }
  [[nodiscard]] Value combined(Value a, Value b, u32 /*rank*/) const {
    if (op_ == Op::prod) return a * b;
    return op_ == Op::max ? std::max(a, b) : std::min(a, b);
  }
  void store(void* out, u64 index, u64 /*key*/, Value value) const { put_float(type_, out, index, value); }
  void finish(void* out, u64 index, u64 key, Value value) const { store(out, index, key, value); }

 private:
  DataType type_;
  Op op_;
  u32 ranks_;
};

template <typename Kind>
void give_all(const Kind& kind, u64 seed, void* out, u64 first, u64 count, u32 rank) {
  for (u64 i = 0; i < count; ++i) {
    const u64 key = key_of(seed, first + i);
    kind.store(out, i, key, kind.part(key, rank));
  }
}

// Rank by rank over a block that the nearest cache holds.
template <typename Kind>
void combine_all(const Kind& kind, u64 seed, void* out, u64 first, u64 count, u32 ranks) {
  std::array<u64, block> keys;
  std::array<typename Kind::Value, block> values;
  for (u64 begin = 0; begin < count; begin += block) {
    const u64 length = std::min(block, count - begin);
    for (u64 i = 0; i < length; ++i) keys[i] = key_of(seed, first + begin + i);
    for (u64 i = 0; i < length; ++i) values[i] = kind.part(keys[i], 0);
    for (u32 rank = 1; rank < ranks; ++rank)
      for (u64 i = 0; i < length; ++i) values[i] = kind.combined(values[i], kind.part(keys[i], rank), rank);
    for (u64 i = 0; i < length; ++i) kind.finish(out, begin + i, keys[i], values[i]);
  }
}

template <typename Work>
void with_kind(DataType type, Op op, u32 ranks, Work work) {
  if (!coll::is_floating(type)) return work(Integers(type, op, ranks));
  if (adds(op)) return work(Units(type, op, ranks));
  return work(Reals(type, op, ranks));
}

}  // namespace

void Pattern::give(void* out, u64 first, u64 count, u32 rank) const {
  with_kind(type_, op_, ranks_, [&](const auto& kind) { give_all(kind, seed_, out, first, count, rank); });
}

void Pattern::result(void* out, u64 first, u64 count) const {
  with_kind(type_, op_, ranks_, [&](const auto& kind) { combine_all(kind, seed_, out, first, count, ranks_); });
}

void write_stream(void* out, DataType type, u64 first, u64 count, u64 seed) {
  const u64 size = coll::size_of(type);
  for (u64 i = 0; i < count; ++i) {
    const u64 bits = key_of(seed, first + i);
    std::memcpy(static_cast<std::byte*>(out) + i * size, &bits, size);
  }
}

u64 count_wrong(const void* got, const void* expected, DataType type, u64 count) {
  const u64 size = coll::size_of(type);
  const auto* a = static_cast<const std::byte*>(got);
  const auto* b = static_cast<const std::byte*>(expected);
  u64 wrong = 0;
  for (u64 begin = 0; begin < count; begin += block) {
    const u64 length = std::min(block, count - begin);
    if (std::memcmp(a + begin * size, b + begin * size, length * size) == 0) continue;
    for (u64 i = begin; i < begin + length; ++i) wrong += std::memcmp(a + i * size, b + i * size, size) != 0 ? 1 : 0;
  }
  return wrong;
}

}  // namespace softib::perf
