// What ranks give, and what must come of it to the bit.
//
// Sums must be exact in every order and grouping, or a check would need a tolerance. So in floating types each element
// has a unit, a power of two, and ranks give whole numbers of it, the sum of whose magnitudes the type's mantissa can
// hold: then any sum of some of them is exact. With 64 ranks and 8-bit floats most ranks give 0. Products are of powers
// of two, but for one rank that brings the mantissa. The average is the exact sum divided once. Integers wrap, and are
// taken from their whole range; for averages only so large that nothing wraps.
//
// Every rank's contribution differs with element, seed and rank, so that what is missing, doubled, shifted or old
// shows.
#pragma once

#include "coll/types.h"

namespace softib::perf {

class Pattern {
 public:
  Pattern(coll::DataType type, coll::Op op, u32 ranks, u64 seed) : type_(type), op_(op), ranks_(ranks), seed_(seed) {}

  // Elements first to first + count of what `rank` gives.
  void give(void* out, u64 first, u64 count, u32 rank) const;
  // ... and of the result.
  void result(void* out, u64 first, u64 count) const;

 private:
  coll::DataType type_;
  coll::Op op_;
  u32 ranks_;
  u64 seed_;
};

// By what `rank` multiplies its part for Op::premul_sum.
[[nodiscard]] constexpr u32 factor_of(u32 rank) { return rank % 2 + 1; }

// Data that is only moved: any bits, as elements first to first + count of a stream that `seed` names.
void write_stream(void* out, coll::DataType type, u64 first, u64 count, u64 seed);

// Elements that differ in any bit.
[[nodiscard]] u64 count_wrong(const void* got, const void* expected, coll::DataType type, u64 count);

}  // namespace softib::perf
