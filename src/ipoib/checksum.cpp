#include "ipoib/checksum.h"

#include <bit>
#include <cstring>

namespace softib::ipoib {

// In memory order, eight bytes at a time: the sum of words doesn't mind their byte order until the end, and carries are
// counted apart.
u64 sum_words(std::span<const u8> bytes, u64 before) {
  const u8* at = bytes.data();
  std::size_t left = bytes.size();
  u64 low0 = 0, low1 = 0, high0 = 0, high1 = 0;
  while (left >= 16) {
    u64 a, b;
    std::memcpy(&a, at, 8);
    std::memcpy(&b, at + 8, 8);
    low0 += a & 0xffff'ffff;
    high0 += a >> 32;
    low1 += b & 0xffff'ffff;
    high1 += b >> 32;
    at += 16;
    left -= 16;
  }
  u64 sum = low0 + low1 + high0 + high1;
  for (; left >= 2; at += 2, left -= 2) {
    u16 word;
    std::memcpy(&word, at, 2);
    sum += word;
  }
  if (left) sum += std::endian::native == std::endian::little ? u64{*at} : u64{*at} << 8;
  const u16 folded = fold(sum);
  return before + (std::endian::native == std::endian::little ? static_cast<u16>(folded << 8 | folded >> 8) : folded);
}

u16 fold(u64 sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<u16>(sum);
}

u64 pseudo_header(const Ip& source, const Ip& destination, Protocol protocol, u32 length) {
  return sum_words(source.view(), sum_words(destination.view())) + static_cast<u8>(protocol) + (length >> 16) +
         (length & 0xffff);
}

}  // namespace softib::ipoib
