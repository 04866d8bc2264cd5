// Sums and products, and what comes after a sum: a factor or a divisor.
#include <cstring>

#include "coll/kernels/dispatch.h"
#include "coll/narrow_floats.h"

#define HWY_TARGET_INCLUDE "coll/kernels/arithmetic.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "coll/kernels/blocks.inl"

HWY_BEFORE_NAMESPACE();
namespace softib::coll::kernels {
namespace HWY_NAMESPACE {

// Are there instructions between half and float that round to the nearest?
#undef SOFTIB_CONVERTS_HALF
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
#define SOFTIB_CONVERTS_HALF 1
#else
#define SOFTIB_CONVERTS_HALF 0
#endif

// The steps of narrow_floats.h on vectors.
struct Floats {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using DU = hn::RebindToUnsigned<D>;
  using VU = hn::Vec<DU>;
  static constexpr std::size_t lanes = hn::MaxLanes(D());
  static HWY_INLINE VU bits(u32 value) { return hn::Set(DU(), value); }
  static HWY_INLINE V floats(VU v) { return hn::BitCast(D(), v); }
  static HWY_INLINE VU raw(V v) { return hn::BitCast(DU(), v); }
  // a where `mask` is true, which compares signed numbers: all compared here are below 2^31.
  static HWY_INLINE VU choose_above(VU x, u32 limit, VU above, VU other) {
    const hn::RebindToSigned<D> di;
    const auto mask = hn::Gt(hn::BitCast(di, x), hn::Set(di, static_cast<i32>(limit)));
    return hn::BitCast(DU(), hn::IfThenElse(mask, hn::BitCast(di, above), hn::BitCast(di, other)));
  }
};

template <const NarrowFormat& format>
struct NarrowSteps : Floats {
  static constexpr int shift = format.shift();
  static constexpr int sign_shift = 31 - std::countr_zero(format.sign);

  static constexpr u32 step_magic = format.step_magic();
  static constexpr u32 rebias = format.rebias();
  static constexpr u32 largest = std::bit_cast<u32>(widened(format, format.largest));
  // The smallest float that rounds to infinity: half a step above the largest value, which is odd.
  static constexpr u32 to_infinity = largest + (1U << (shift - 1));
  static constexpr bool saturates = format.overflow == Overflow::saturates;

  static HWY_INLINE V widen(VU x) {
    const VU magnitude = hn::And(x, bits(format.sign - 1));
    const VU sign = hn::ShiftLeft<sign_shift>(hn::And(x, bits(format.sign)));
    const V magic = floats(bits(step_magic));
    const VU small = raw(hn::Sub(floats(hn::Add(magnitude, raw(magic))), magic));
    const VU moved = hn::ShiftLeft<shift>(magnitude);
    VU wide = choose_above(magnitude, (1U << format.mantissa_bits) - 1, hn::Add(moved, bits(rebias)), small);
    if constexpr (format.infinity == format.nan) {
      wide = choose_above(magnitude, format.infinity - 1, bits(0x7fc00000), wide);
    } else {
      wide = choose_above(magnitude, format.infinity - 1, hn::Or(moved, bits(0x7f800000)), wide);
      wide = choose_above(magnitude, format.infinity, hn::Or(wide, bits(1U << 22)), wide);
    }
    return floats(hn::Or(wide, sign));
  }

  // To a magnitude is added the float whose last bit is worth one step of the result at that size. The sum's low bits
  // are then the number of steps, rounded, and its exponent tells how many steps all smaller sizes have.
  static HWY_INLINE VU narrow(V v) {
    const VU x = raw(v);
    const VU magnitude = hn::And(x, bits(0x7fffffff));
    VU sign = hn::ShiftRight<sign_shift>(hn::And(x, bits(0x80000000)));
    const VU kept = saturates ? hn::Min(magnitude, bits(largest)) : magnitude;
    const VU exponent = hn::And(kept, bits(0x7f800000));
    const VU magic = hn::Max(hn::Add(exponent, bits(u32{shift} << 23)), bits(step_magic));
    const VU steps = hn::Sub(raw(hn::Add(floats(kept), floats(magic))), magic);
    VU rounded = hn::Add(steps, hn::ShiftRight<shift>(hn::Sub(magic, bits(step_magic))));
    VU nan = bits(format.nan);
    if constexpr (saturates) {
      sign = choose_above(magnitude, 0x7f800000, bits(0), sign);
    } else {
      rounded = choose_above(magnitude, to_infinity - 1, bits(format.infinity), rounded);
      nan = hn::Or(nan, hn::ShiftRight<shift>(hn::And(magnitude, bits(0x7fffff))));
    }
    return hn::Or(choose_above(magnitude, 0x7f800000, nan, rounded), sign);
  }
};

template <typename E, const NarrowFormat& format>
struct Narrow : NarrowSteps<format> {
  using Base = NarrowSteps<format>;
  using typename Base::V;
  using Element = E;
  using Part = hn::Rebind<E, Floats::D>;
  static HWY_INLINE V load(const E* p) { return Base::widen(hn::PromoteTo(Floats::DU(), hn::LoadU(Part(), p))); }
  static HWY_INLINE hn::Vec<Part> coded(V v) {
    const hn::RebindToSigned<Floats::D> di;
    return hn::DemoteTo(Part(), hn::BitCast(di, Base::narrow(v)));
  }
  static HWY_INLINE void store(V v, E* p) { hn::StoreU(coded(v), Part(), p); }
};

#if SOFTIB_CONVERTS_HALF
using Halves = hn::Rebind<hwy::float16_t, Floats::D>;

struct Half : Floats {
  using Element = u16;
  using Part = hn::Rebind<u16, D>;
  static HWY_INLINE V load(const u16* p) { return hn::PromoteTo(D(), hn::BitCast(Halves(), hn::LoadU(Part(), p))); }
  static HWY_INLINE hn::Vec<Part> coded(V v) { return hn::BitCast(Part(), hn::DemoteTo(Halves(), v)); }
  static HWY_INLINE void store(V v, u16* p) { hn::StoreU(coded(v), Part(), p); }
};

// The upper byte of a half.
struct E5m2 : Narrow<u8, e5m2_format> {
  static HWY_INLINE V load(const u8* p) {
    const hn::Rebind<u16, Floats::D> d16;
    const auto halves = hn::ShiftLeft<8>(hn::PromoteTo(d16, hn::LoadU(Part(), p)));
    return hn::PromoteTo(D(), hn::BitCast(Halves(), halves));
  }
};

// Moved to the places of a half's exponent and mantissa, values come out 2^8 too small, and NaN as 480. The sign, which
// fills the bits above a byte, is moved one place short of its own, where a second one must go.
struct E4m3 : Narrow<u8, e4m3_format> {
  static HWY_INLINE V load(const u8* p) {
    const hn::Rebind<std::int8_t, Floats::D> d8;
    const hn::Rebind<std::int16_t, Floats::D> d16;
    const auto wide = hn::PromoteTo(d16, hn::BitCast(d8, hn::LoadU(Part(), p)));
    const auto halves = hn::And(hn::ShiftLeft<7>(wide), hn::Set(d16, static_cast<std::int16_t>(0xbf80)));
    const V value = hn::Mul(hn::PromoteTo(D(), hn::BitCast(Halves(), halves)), hn::Set(D(), 256.F));
    return hn::IfThenElse(hn::Gt(hn::Abs(value), hn::Set(D(), 448.F)), hn::NaN(D()), value);
  }
};
#else
using Half = Narrow<u16, half_format>;
using E5m2 = Narrow<u8, e5m2_format>;
using E4m3 = Narrow<u8, e4m3_format>;
#endif

struct Bfloat16 : Floats {
  using Element = u16;
  using Part = hn::Rebind<u16, D>;
  static HWY_INLINE V load(const u16* p) {
    return floats(hn::ShiftLeft<16>(hn::PromoteTo(DU(), hn::LoadU(Part(), p))));
  }
  static HWY_INLINE hn::Vec<Part> coded(V v) {
    const VU x = raw(v);
    const VU odd = hn::And(hn::ShiftRight<16>(x), bits(1));
    const VU rounded = hn::ShiftRight<16>(hn::Add(x, hn::Add(odd, bits(0x7fff))));
    const VU nan = hn::Or(hn::ShiftRight<16>(x), bits(0x40));
    const VU kept = choose_above(hn::And(x, bits(0x7fffffff)), 0x7f800000, nan, rounded);
    const hn::RebindToSigned<D> di;
    return hn::DemoteTo(Part(), hn::BitCast(di, kept));
  }
  static HWY_INLINE void store(V v, u16* p) { hn::StoreU(coded(v), Part(), p); }
};

struct Plus {
  template <typename V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

struct Times {
  template <typename V>
  HWY_INLINE V operator()(V a, V b) const {
    using D = hn::DFromV<V>;
    if constexpr (std::is_same_v<hn::TFromD<D>, u8>)
      return bytes(D(), a, b);
    else
      return hn::Mul(a, b);
  }

  // No instruction set multiplies bytes, so each half of 16 bits does.
  template <typename D, typename V>
  static HWY_INLINE V bytes(D d, V a, V b) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(d, static_cast<u8>(hn::GetLane(a) * hn::GetLane(b)));
#else
    const hn::RepartitionToWide<D> d16;
    const auto low = hn::Set(d16, 0xff);
    const auto a16 = hn::BitCast(d16, a);
    const auto b16 = hn::BitCast(d16, b);
    const auto even = hn::And(hn::Mul(a16, b16), low);
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(d, hn::Or(even, odd));
#endif
  }
};

// What is done to each finished vector.
template <typename V>
struct Finisher {
  Finish finish;
  V factor;
  HWY_INLINE V operator()(V v) const {
    if (finish == Finish::nothing) return v;
    if constexpr (std::is_floating_point_v<hn::TFromD<hn::DFromV<V>>>)
      if (finish == Finish::divide) return hn::Div(v, factor);
    return Times()(v, factor);
  }
};

template <typename T>
T factor_of(const Job& job) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(job.number);
  else
    return static_cast<T>(job.factor.bits());
}

template <typename Format>
void run_format(const Format& format, const Job& job) {
  using V = typename Format::V;
  const hn::DFromV<V> d;
  const Finisher<V> finisher{job.finish, hn::Set(d, factor_of<hn::TFromD<hn::DFromV<V>>>(job))};
  if (job.op == Op::prod)
    combine(format, Times(), finisher, job);
  else
    combine(format, Plus(), finisher, job);
}

// Wrapping sums and products are the same for signed and unsigned integers.
void run_arithmetic(const Job& job) {
  switch (job.type) {
    case DataType::int8:
    case DataType::uint8:
      return run_format(Plain<u8>(), job);
    case DataType::int32:
    case DataType::uint32:
      return run_format(Plain<u32>(), job);
    case DataType::int64:
    case DataType::uint64:
      return run_format(Plain<std::uint64_t>(), job);
    case DataType::float32:
      return run_format(Plain<float>(), job);
    case DataType::float64:
      return run_format(Plain<double>(), job);
    case DataType::float16:
      return run_format(Coded<Half>(), job);
    case DataType::bfloat16:
      return run_format(Coded<Bfloat16>(), job);
    case DataType::float8_e4m3:
      return run_format(Coded<E4m3>(), job);
    case DataType::float8_e5m2:
      return run_format(Coded<E5m2>(), job);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softib::coll::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softib::coll::kernels {

HWY_EXPORT(run_arithmetic);

void run_arithmetic(const Job& job) { HWY_DYNAMIC_DISPATCH(run_arithmetic)(job); }

}  // namespace softib::coll::kernels
#endif
