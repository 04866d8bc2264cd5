// Times of the protocol: exponents of 4.096 us, which are taken for milliseconds times 2^-8, as the kernel takes them.
#pragma once

#include <algorithm>

#include "base/types.h"

namespace softib::cm {

inline constexpr u8 longest_timeout = 31;

[[nodiscard]] constexpr u64 to_ns(u8 exponent) {
  constexpr u64 millisecond = 1'000'000;
  return millisecond << (std::max<u32>(exponent, 8) - 8);
}

// How long a queue pair waits for an acknowledgement: there and back, and what the other HCA needs. The sum of two
// powers is near the next power of the larger.
[[nodiscard]] constexpr u8 ack_timeout(u8 ca_delay, u8 packet_life) {
  u32 timeout = packet_life + 1U;
  if (timeout >= ca_delay)
    timeout += ca_delay >= timeout - 1 ? 1 : 0;
  else
    timeout = ca_delay + (timeout >= ca_delay - 1U ? 1U : 0U);
  return static_cast<u8>(std::min<u32>(timeout, longest_timeout));
}

inline constexpr u8 local_ca_delay = 15;  // what the rxe driver says of its devices

}  // namespace softib::cm
