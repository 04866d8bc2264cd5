// Included once per instruction set: blocks of four vectors, how each element type fills one, and the loop over inputs.
//
// A Format says how elements lie in memory (`Element`) and what vectors they are combined as (`V`, of `lanes` lanes):
//
//   load(p), store(vector, p)   as many elements as a vector has lanes
//   stream_block(block, p)      four vectors, past the caches; p is aligned to 64 bytes

HWY_BEFORE_NAMESPACE();
namespace softib::coll::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename Half>
struct Pair {
  Half lo, hi;
};

template <typename V>
using Block = Pair<Pair<V>>;

// f on each vector of a block; with two blocks, on vectors at the same place.
template <typename V, typename F>
HWY_INLINE V map(const F& f, V a) {
  return f(a);
}
template <typename H, typename F>
HWY_INLINE Pair<H> map(const F& f, Pair<H> a) {
  return {map(f, a.lo), map(f, a.hi)};
}
template <typename V, typename F>
HWY_INLINE V map(const F& f, V a, V b) {
  return f(a, b);
}
template <typename H, typename F>
HWY_INLINE Pair<H> map(const F& f, Pair<H> a, Pair<H> b) {
  return {map(f, a.lo, b.lo), map(f, a.hi, b.hi)};
}

template <typename Format>
HWY_INLINE Block<typename Format::V> load_block(const Format& format, const typename Format::Element* p) {
  constexpr std::size_t lanes = Format::lanes;
  return {{format.load(p), format.load(p + lanes)}, {format.load(p + 2 * lanes), format.load(p + 3 * lanes)}};
}

template <typename Format>
HWY_INLINE void store_block(const Format& format, const Block<typename Format::V>& b, typename Format::Element* p) {
  constexpr std::size_t lanes = Format::lanes;
  format.store(b.lo.lo, p);
  format.store(b.lo.hi, p + lanes);
  format.store(b.hi.lo, p + 2 * lanes);
  format.store(b.hi.hi, p + 3 * lanes);
}

// Elements that are combined as they lie.
template <typename T>
struct Plain {
  using Element = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::size_t lanes = hn::MaxLanes(D());

  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE void stream_block(const Block<V>& b, T* p) {
    hn::Stream(b.lo.lo, D(), p);
    hn::Stream(b.lo.hi, D(), p + lanes);
    hn::Stream(b.hi.lo, D(), p + 2 * lanes);
    hn::Stream(b.hi.hi, D(), p + 3 * lanes);
  }
};

// Elements that are combined as something wider, by a Codec, which is a Format but for stream_block. That needs full
// vectors, so the coded parts of a block are put side by side first.
template <typename Codec>
struct Coded : Codec {
  using Codec::lanes;
  using typename Codec::Element;
  using typename Codec::V;

  static HWY_INLINE void stream_block(const Block<V>& b, Element* p) {
#if HWY_TARGET == HWY_SCALAR
    store_block(Codec(), b, p);
#else
    const hn::Twice<typename Codec::Part> twice;
    const auto lo = hn::Combine(twice, Codec::coded(b.lo.hi), Codec::coded(b.lo.lo));
    const auto hi = hn::Combine(twice, Codec::coded(b.hi.hi), Codec::coded(b.hi.lo));
    if constexpr (sizeof(Element) == 2) {
      hn::Stream(lo, twice, p);
      hn::Stream(hi, twice, p + 2 * lanes);
    } else {
      const hn::Twice<decltype(twice)> all;
      hn::Stream(hn::Combine(all, hi, lo), all, p);
    }
#endif
  }
};

template <typename Element>
struct Inputs {
  const void* const* pointers;
  std::size_t count;
  HWY_INLINE const Element* operator[](std::size_t i) const { return static_cast<const Element*>(pointers[i]); }
};

// Fewer elements than a vector has: through copies with room for a whole one.
template <typename Format, typename Op, typename Last>
HWY_NOINLINE void combine_rest(const Format& format, const Op& op, const Last& last, typename Format::Element* out,
                               Inputs<typename Format::Element> inputs, std::size_t at, std::size_t count) {
  using Element = typename Format::Element;
  Element room[Format::lanes] = {};
  std::memcpy(room, inputs[0] + at, count * sizeof(Element));
  auto sum = format.load(room);
  for (std::size_t k = 1; k < inputs.count; ++k) {
    std::memcpy(room, inputs[k] + at, count * sizeof(Element));
    sum = op(sum, format.load(room));
  }
  format.store(last(sum), room);
  std::memcpy(out + at, room, count * sizeof(Element));
}

// Vector by vector, then the rest.
template <typename Format, typename Op, typename Last>
HWY_INLINE void combine_short(const Format& format, const Op& op, const Last& last, typename Format::Element* out,
                              Inputs<typename Format::Element> inputs, std::size_t at, std::size_t end) {
  for (; end - at >= Format::lanes; at += Format::lanes) {
    auto sum = format.load(inputs[0] + at);
    for (std::size_t k = 1; k < inputs.count; ++k) sum = op(sum, format.load(inputs[k] + at));
    format.store(last(sum), out + at);
  }
  if (at != end) combine_rest(format, op, last, out, inputs, at, end - at);
}

// How many elements lie before `out` is aligned for streaming; `count` if it never is.
template <typename Element>
HWY_INLINE std::size_t elements_to_alignment(const Element* out, std::size_t count) {
  constexpr std::size_t alignment = 64;
  const std::size_t past = reinterpret_cast<std::uintptr_t>(out) % alignment;
  if (past % sizeof(Element) != 0) return count;
  const std::size_t before = past == 0 ? 0 : (alignment - past) / sizeof(Element);
  return before < count ? before : count;
}

template <typename Format, typename Op, typename Last>
void combine(const Format& format, const Op& op, const Last& last, const Job& job) {
  using Element = typename Format::Element;
  auto* out = static_cast<Element*>(job.out);
  const Inputs<Element> inputs{job.inputs, job.input_count};
  std::size_t at = 0;
  const std::size_t before = elements_to_alignment(out, job.count);
  const bool streaming = job.streaming && before != job.count;
  if (streaming) {
    combine_short(format, op, last, out, inputs, 0, before);
    at = before;
  }
  constexpr std::size_t block = 4 * Format::lanes;
  for (; job.count - at >= block; at += block) {
    auto sum = load_block(format, inputs[0] + at);
    for (std::size_t k = 1; k < inputs.count; ++k) sum = map(op, sum, load_block(format, inputs[k] + at));
    sum = map(last, sum);
    if (streaming)
      format.stream_block(sum, out + at);
    else
      store_block(format, sum, out + at);
  }
  combine_short(format, op, last, out, inputs, at, job.count);
  if (streaming) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace softib::coll::kernels
HWY_AFTER_NAMESPACE();
