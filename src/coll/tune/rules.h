// Tuning files: what somebody measured, or knows better. A line is
//
//   COLLECTIVE  RANKS  HOSTS  UP_TO  ALGORITHM  LANES  [WINDOW]
//
// with `*` for any ranks, hosts or size, sizes as 4096, 64K or 1M, and # before remarks. The first line that fits
// holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coll/error.h"
#include "coll/schedule/algorithms.h"

namespace softib::coll {

struct TuningLine {
  Collective collective = Collective::all_reduce;
  std::optional<u32> ranks;
  std::optional<u32> hosts;
  std::optional<u64> up_to;  // bytes, as Question::bytes counts them
  Algorithm algorithm = Algorithm::ring;
  u32 lanes = 1;
  u32 window = 4;
};

// Errors name the line.
[[nodiscard]] Outcome<std::vector<TuningLine>> parse_tuning(std::string_view text);
[[nodiscard]] Outcome<std::vector<TuningLine>> read_tuning_file(const std::string& path);

}  // namespace softib::coll
