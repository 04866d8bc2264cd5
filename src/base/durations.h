// Durations in nanoseconds, the unit of every clock here.
#pragma once

#include "base/types.h"

namespace softib::ns {

inline constexpr u64 microsecond = 1'000;
inline constexpr u64 millisecond = 1'000 * microsecond;
inline constexpr u64 second = 1'000 * millisecond;

}  // namespace softib::ns
