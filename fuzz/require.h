// What every fuzz target says of what it finds broken.
#pragma once

#include <cstdlib>

namespace softib::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace softib::fuzz
