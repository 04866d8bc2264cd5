// How a sender stores what it writes to its place in a peer's arena: past its caches, or by way of them. Past them is
// quicker where that memory comes anew each time; where the peer's part was just read to be combined with this rank's,
// as in a collective in place, its lines are in the cache already.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>

#include "base/quicker.h"
#include "coll/kernels/kernels.h"
#include "coll/transport/shm/layout.h"

namespace softib::coll::shm {

// Of one rank, for all its peers.
class StoreChoices {
 public:
  // A piece of a message of so many bytes.
  void write(u64 message_bytes, std::byte* to, const std::byte* from, u64 bytes) {
    using Clock = std::chrono::steady_clock;
    Quicker<Way>& choice = of(message_bytes);
    const auto [way, timed] = choice.next();
    const auto begin = timed ? Clock::now() : Clock::time_point();
    kernels::copy(to, from, bytes, way == Way::streaming ? kernels::Stores::streaming : kernels::Stores::cached);
    if (!timed) return;
    const std::chrono::nanoseconds time = Clock::now() - begin;
    choice.learn(way, bytes, static_cast<u64>(time.count()));
  }

 private:
  enum class Way : u8 { streaming, cached };
  static constexpr u64 lengths = 14;

  // By length, each twice as long as the one before.
  [[nodiscard]] Quicker<Way>& of(u64 bytes) {
    constexpr u64 least_width = std::bit_width(push_least);
    const u64 width = std::max<u64>(std::bit_width(bytes), least_width);
    return choices_[std::min<u64>(width - least_width, lengths - 1)];
  }

  std::array<Quicker<Way>, lengths> choices_{};
};

}  // namespace softib::coll::shm
