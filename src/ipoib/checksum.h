// The Internet checksum (RFC 1071).
#pragma once

#include <span>

#include "base/types.h"
#include "ipoib/packets.h"

namespace softib::ipoib {

// The sum of 16-bit words, not folded nor inverted. Pieces but the last must have an even size.
[[nodiscard]] u64 sum_words(std::span<const u8> bytes, u64 before = 0);
[[nodiscard]] u16 fold(u64 sum);
[[nodiscard]] inline u16 checksum(std::span<const u8> bytes, u64 before = 0) {
  return static_cast<u16>(~fold(sum_words(bytes, before)));
}

// Of addresses, length and protocol, as TCP, UDP and ICMPv6 put it in front.
[[nodiscard]] u64 pseudo_header(const Ip& source, const Ip& destination, Protocol protocol, u32 length);

}  // namespace softib::ipoib
