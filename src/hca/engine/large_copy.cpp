#include "hca/engine/large_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace softib::hca {

namespace {

using StoreChoices = QuickerByLength<Stores, large_copy_least, 14>;
std::array<StoreChoices, 2> choices_by_target;

// Of long copies so many turns would take a second, in which the program may have come to something else; and what a
// near cache holds matters less to them.
u32 turns_between_tries(u64 length) {
  constexpr u64 bytes = u64{64} << 20;
  return static_cast<u32>(std::clamp<u64>(bytes / length, 128, 1024));
}

#if defined(__SSE2__)

void copy_streaming(u8* to, const u8* from, u64 length) {
  constexpr u64 line = 64;
  const u64 before = std::min(length, (line - reinterpret_cast<u64>(to) % line) % line);
  std::memmove(to, from, before);
  u64 at = before;
  for (; length - at >= line; at += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
  std::memmove(to + at, from + at, length - at);
}

#else

void copy_streaming(u8* to, const u8* from, u64 length) { std::memmove(to, from, length); }

#endif

}  // namespace

void copy_with(Stores stores, u8* to, const u8* from, u64 length) {
  if (stores == Stores::streaming)
    copy_streaming(to, from, length);
  else
    std::memmove(to, from, length);
}

void copy_large(u8* to, const u8* from, u64 length, Target target) {
  choices_by_target[static_cast<u8>(target)].of(length).run(
      length, [&](Stores stores) { copy_with(stores, to, from, length); }, turns_between_tries(length));
}

}  // namespace softib::hca
