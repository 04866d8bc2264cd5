// What a waiting thread does with the processor: spins, then yields it, then sleeps.
#pragma once

#include <chrono>
#include <span>

#include "base/types.h"

namespace softib::coll {

class Patience {
 public:
  // `crowded`: more ranks than processors here, so that those who spin are in the way of those they wait for.
  explicit Patience(bool crowded) : crowded_(crowded) {}

  void moved() { idle_ = 0; }
  // Nothing moved; a moment passes. True every so many times: look at the clock.
  bool rest();

  // From here on sleeping is right.
  [[nodiscard]] bool is_long(std::chrono::nanoseconds still) const {
    return still > (crowded_ ? std::chrono::milliseconds(2) : std::chrono::milliseconds(20));
  }
  // Sleeps until one of the descriptors is readable; where there are none that would tell, for a short while that grows
  // with how long nothing has moved.
  static void sleep(std::span<const int> descriptors, bool all_tell, std::chrono::nanoseconds still);

 private:
  static constexpr u32 spins_crowded = 16;
  static constexpr u32 spins_alone = 300;
  static constexpr u32 looks_apart = 64;

  bool crowded_;
  u32 idle_ = 0;
};

}  // namespace softib::coll
