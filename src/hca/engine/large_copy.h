// Long copies. A store into a line that another core's cache holds needs that one's leave, and what this costs depends
// on the machine and on what the program at the other end does with the bytes: on two cores without a shared cache
// stores past the caches made an all-reduce of 1 MiB five times as fast, and ib_write_bw, whose server never looks,
// half as fast. So both are tried and timed, and the quicker one is used.
#pragma once

#include <array>
#include <atomic>

#include "base/types.h"

namespace softib::hca {

inline constexpr u64 large_copy_least = u64{16} << 10;

// As memmove for ranges that are the same or don't overlap; whoever sees a store that comes after it sees all of it.
void copy_large(u8* to, const u8* from, u64 length);

// `streaming`: past the caches. The ranges as above.
enum class Stores : u8 { cached, streaming };
void copy_with(Stores stores, u8* to, const u8* from, u64 length);

// Which stores have been the quicker ones of late. Threads may use one at the same time: what they write over each
// other is one observation.
class StoreChoice {
 public:
  struct Turn {
    Stores stores = Stores::cached;
    bool timed = false;  // learn() wants to hear of it
  };
  // Now and then the other ones, as the program may have come to something else meanwhile.
  [[nodiscard]] Turn next();
  void learn(Stores used, u64 bytes, u64 nanoseconds);

 private:
  static constexpr u32 turns_between_looks = 8;  // at the clock, which takes as long as copying 1 KiB
  static constexpr u32 turns_between_tries = 1024;
  // A single copy past the caches drives the lines out of them, and the next one through them has to fetch them first:
  // only the last of so many in a row shows what such copies cost.
  static constexpr u32 turns_in_a_try = 4;

  [[nodiscard]] std::atomic<u64>& cost(Stores stores) { return costs_[static_cast<u8>(stores)]; }

  std::array<std::atomic<u64>, 2> costs_{};  // ns for each MiB; 0: not known
  std::atomic<u32> turns_{0};
};

}  // namespace softib::hca
