// Of two ways to do the same, which is the quicker one? That depends on the machine, and on what the program at the
// other end does. So both are tried and timed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>

#include "base/types.h"

namespace softib {

// `Way`: an enumeration of two, 0 and 1. Threads may use one at the same time: what they write over each other is one
// observation.
template <typename Way>
class Quicker {
 public:
  struct Turn {
    Way way{};
    bool timed = false;  // learn() wants to hear of it
  };

  // The way to go now: the one that has been quicker of late, and now and then the other one, as the program may have
  // come to something else meanwhile.
  [[nodiscard]] Turn next(u32 turns_between_tries = usual_pause) {
    constexpr auto relaxed = std::memory_order_relaxed;
    const u64 first = costs_[0].load(relaxed);
    const u64 second = costs_[1].load(relaxed);
    const u32 turn = turns_.load(relaxed);
    turns_.store(turn + 1, relaxed);
    const bool ends_try = turn % turns_in_a_try == turns_in_a_try - 1;
    if (first == 0) return {Way{0}, ends_try};
    if (second == 0) return {Way{1}, ends_try};
    const bool tries = turn % turns_between_tries < turns_in_a_try;
    const Way way = (first <= second) != tries ? Way{0} : Way{1};
    return {way, tries ? ends_try : turn % turns_between_looks == turns_between_looks - 1};
  }

  // Does it: `work(way)` of so many bytes.
  template <typename Work>
  void run(u64 bytes, Work work, u32 turns_between_tries = usual_pause) {
    using Clock = std::chrono::steady_clock;
    const auto [way, timed] = next(turns_between_tries);
    if (!timed) return work(way);
    const auto begin = Clock::now();
    work(way);
    const std::chrono::nanoseconds time = Clock::now() - begin;
    learn(way, bytes, static_cast<u64>(time.count()));
  }

  // A time during which the thread lost its processor tells nothing: what is longer than before counts for a quarter,
  // and for twice of that at most.
  void learn(Way used, u64 bytes, u64 nanoseconds) {
    constexpr u64 mebibyte = u64{1} << 20;
    constexpr auto relaxed = std::memory_order_relaxed;
    std::atomic<u64>& cost = costs_[static_cast<u8>(used)];
    const u64 seen = std::max<u64>(nanoseconds * mebibyte / bytes, 1);
    const u64 known = cost.load(relaxed);
    if (known == 0)
      cost.store(seen, relaxed);
    else if (seen <= known)
      cost.store((known + seen + 1) / 2, relaxed);
    else
      cost.store((3 * known + std::min(seen, 2 * known) + 3) / 4, relaxed);
  }

 private:
  static constexpr u32 turns_between_looks = 8;  // at the clock, which takes as long as copying 1 KiB
  static constexpr u32 usual_pause = 1024;
  // What one way leaves in the caches makes the first turns of the other one dear: only the last of so many in a row
  // shows what it costs.
  static constexpr u32 turns_in_a_try = 4;

  std::array<std::atomic<u64>, 2> costs_{};  // ns for each MiB; 0: not known
  std::atomic<u32> turns_{0};
};

// One for each length, each twice as long as the one before, from `least` bytes on: short ones stay in a cache that
// long ones don't fit in.
template <typename Way, u64 least, u64 lengths>
class QuickerByLength {
 public:
  [[nodiscard]] Quicker<Way>& of(u64 bytes) {
    constexpr u64 least_width = std::bit_width(least);
    const u64 width = std::max<u64>(std::bit_width(bytes), least_width);
    return choices_[std::min<u64>(width - least_width, lengths - 1)];
  }

 private:
  std::array<Quicker<Way>, lengths> choices_{};
};

}  // namespace softib
