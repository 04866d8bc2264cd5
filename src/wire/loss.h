// Packets on bad links.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/types.h"

namespace softib::wire {

inline constexpr u64 bits_of_word = 32;

// That a packet of so many words gets lost on a link that drops a share of them and has so many errors a bit. What is
// no share counts as none, or as all.
inline double chance_of_loss(double drop, double bit_errors, u64 words) {
  if (!(drop > 0) && !(bit_errors > 0)) return 0;
  const double intact = std::pow(1 - std::clamp(bit_errors, 0.0, 1.0), static_cast<double>(words * bits_of_word));
  return 1 - (1 - std::clamp(drop, 0.0, 1.0)) * intact;
}

}  // namespace softib::wire
