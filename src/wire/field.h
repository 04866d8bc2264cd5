// Fields of management datagrams: where their bits lie. IBTA counts from the most significant bit of byte 0.
#pragma once

#include <span>

#include "base/types.h"

namespace softib::wire {

struct Field {
  u16 at;    // first bit
  u8 width;  // 1 to 64

  // The same field of the n-th of several records, or of one that starts further in.
  [[nodiscard]] constexpr Field shifted(u32 bits) const { return {static_cast<u16>(at + bits), width}; }
};

// Both stay within `bytes`: a field that would leave it reads as 0 and is not written.
[[nodiscard]] constexpr u64 get(std::span<const u8> bytes, Field field) {
  if ((field.at + field.width + 7U) / 8 > bytes.size()) return 0;
  u64 value = 0;
  for (u32 bit = field.at; bit < u32{field.at} + field.width;) {
    const u32 left = 8 - bit % 8;
    const u32 take = left < u32{field.at} + field.width - bit ? left : u32{field.at} + field.width - bit;
    const u32 piece = (bytes[bit / 8] >> (left - take)) & ((1U << take) - 1);
    value = value << take | piece;
    bit += take;
  }
  return value;
}

constexpr void set(std::span<u8> bytes, Field field, u64 value) {
  if ((field.at + field.width + 7U) / 8 > bytes.size()) return;
  for (u32 end = u32{field.at} + field.width; end > field.at;) {
    const u32 used = end % 8 ? end % 8 : 8;  // bits of this byte up to `end`
    const u32 take = used < end - field.at ? used : end - field.at;
    const u32 shift = 8 - used;
    const u32 mask = ((1U << take) - 1) << shift;
    u8& byte = bytes[(end - 1) / 8];
    byte = static_cast<u8>((byte & ~mask) | ((static_cast<u32>(value) << shift) & mask));
    value >>= take;
    end -= take;
  }
}

}  // namespace softib::wire
