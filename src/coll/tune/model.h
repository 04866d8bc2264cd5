// What a collective takes, by what it sends: the first guess, until somebody measures.
#pragma once

#include "coll/schedule/algorithms.h"
#include "coll/tune/landscape.h"

namespace softib::coll {

struct LinkRow {
  Way way;
  double round;     // us: from one rank's send to what the other one does next
  double message;   // us of a rank's time that each further message takes
  double per_byte;  // us
  u64 lane_bytes;   // slices of this size are long enough
  u64 pair_bytes;   // of an all-reduce of two ranks: each sends on what it has combined while a near cache holds it
  u32 window;       // slices under way at once
};

[[nodiscard]] const LinkRow& link_row(Way way);

// Microseconds for `bytes` (as in Question) cut in `lanes`.
[[nodiscard]] double modelled_time(const AlgorithmRow& row, const Landscape& landscape, u64 bytes, u32 lanes);

}  // namespace softib::coll
