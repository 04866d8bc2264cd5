// The times that InfiniBand counts in codes.
#pragma once

#include <time.h>

#include <algorithm>

#include "base/durations.h"
#include "base/types.h"

namespace softib::hca {

inline constexpr u64 never = ~0ULL;
inline constexpr u8 rnr_retry_for_ever = 7;

// IBTA table 45: the RNR NAK timer, in units of 10 us.
inline constexpr u32 rnr_timer_10us[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                           48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                           2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr u64 rnr_timer_ns(u8 code) { return u64{rnr_timer_10us[code & 31]} * 10'000; }

// The timer is the least that a requester waits. One that tries for ever adds an eighth of the time that it has waited
// already, up to 2 ms, so that a receiver which stands still doesn't cost a core.
constexpr u64 patient_rnr_ns(u8 code, u64 waited) { return rnr_timer_ns(code) + std::min(waited / 8, u64{2'000'000}); }

// 4.096 us * 2^code; code 0: no time-out.
constexpr u64 ack_timeout_ns(u8 code) { return (code & 31) ? 4096ULL << (code & 31) : never; }

inline u64 now_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * ns::second + static_cast<u64>(now.tv_nsec);
}

}  // namespace softib::hca
