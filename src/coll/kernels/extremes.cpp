// Largest and smallest. Floating types become integers of the same order, so that NaN and the two zeros need no care
// in the loop, and narrow ones no widening.
#include <cstring>
#include <limits>

#include "coll/kernels/dispatch.h"

#define HWY_TARGET_INCLUDE "coll/kernels/extremes.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "coll/kernels/blocks.inl"

HWY_BEFORE_NAMESPACE();
namespace softib::coll::kernels {
namespace HWY_NAMESPACE {

// Floating values of the size of T as signed integers in the same order: the bits below the sign are turned over where
// the sign is set. A NaN becomes the integer that wins. The way back turns the same bits over, so the winner comes out
// as the NaN with all bits set but perhaps the sign.
template <typename T>
struct Ordered {
  using Element = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::size_t lanes = hn::MaxLanes(D());
  V infinity;  // bits of the largest value that is not NaN
  V winner;

  Ordered(T infinity_bits, T winning) : infinity(hn::Set(D(), infinity_bits)), winner(hn::Set(D(), winning)) {}

  static HWY_INLINE V below_sign() { return hn::Set(D(), std::numeric_limits<T>::max()); }
  static HWY_INLINE V turned(V v) { return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), below_sign())); }
  HWY_INLINE V load(const T* p) const {
    const V x = hn::LoadU(D(), p);
    const auto is_nan = hn::Gt(hn::And(x, below_sign()), infinity);
    return hn::IfThenElse(is_nan, winner, turned(x));
  }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(turned(v), D(), p); }

  static HWY_INLINE void stream_block(const Block<V>& b, T* p) {
    Plain<T>::stream_block(map([](V v) HWY_ATTR { return turned(v); }, b), p);
  }
};

struct Larger {
  template <typename V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

struct Smaller {
  template <typename V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Min(a, b);
  }
};

struct Same {
  template <typename V>
  HWY_INLINE V operator()(V v) const {
    return v;
  }
};

template <typename T>
void run_integers(const Job& job) {
  if (job.op == Op::max)
    combine(Plain<T>(), Larger(), Same(), job);
  else
    combine(Plain<T>(), Smaller(), Same(), job);
}

template <typename T>
void run_floats(T infinity, const Job& job) {
  using Limits = std::numeric_limits<T>;
  if (job.op == Op::max)
    combine(Ordered<T>(infinity, Limits::max()), Larger(), Same(), job);
  else
    combine(Ordered<T>(infinity, Limits::min()), Smaller(), Same(), job);
}

void run_extremes(const Job& job) {
  switch (job.type) {
    case DataType::int8:
      return run_integers<std::int8_t>(job);
    case DataType::uint8:
      return run_integers<u8>(job);
    case DataType::int32:
      return run_integers<i32>(job);
    case DataType::uint32:
      return run_integers<u32>(job);
    case DataType::int64:
      return run_integers<std::int64_t>(job);
    case DataType::uint64:
      return run_integers<std::uint64_t>(job);
    case DataType::float16:
      return run_floats<std::int16_t>(0x7c00, job);
    case DataType::bfloat16:
      return run_floats<std::int16_t>(0x7f80, job);
    case DataType::float32:
      return run_floats<i32>(0x7f800000, job);
    case DataType::float64:
      return run_floats<std::int64_t>(0x7ff0000000000000, job);
    case DataType::float8_e4m3:
      return run_floats<std::int8_t>(0x7e, job);
    case DataType::float8_e5m2:
      return run_floats<std::int8_t>(0x7c, job);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softib::coll::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softib::coll::kernels {

HWY_EXPORT(run_extremes);

void run_extremes(const Job& job) { HWY_DYNAMIC_DISPATCH(run_extremes)(job); }

}  // namespace softib::coll::kernels
#endif
