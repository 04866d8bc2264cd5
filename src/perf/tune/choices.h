// What was measured, and what follows from it: which way is best at which size. No ranks, no clock.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace softib::perf::tune {

// How a collective is done.
struct Way {
  std::string algorithm;
  u32 lanes = 1;
  u32 window = 1;

  friend auto operator<=>(const Way&, const Way&) = default;
};
[[nodiscard]] std::string text_of(const Way& way);  // "direct, 4 lanes"

// The name of the benchmark of a collective ("all_to_all": "alltoall"); nullptr: there is none, or nothing to choose.
[[nodiscard]] const char* benchmark_of(std::string_view collective);
[[nodiscard]] std::vector<std::string> tunable_collectives();

// One size of one collective: the times of all ways, in seconds.
struct Cell {
  u64 bytes = 0;
  Way before;  // what the library, or the file that is checked, chooses
  std::map<Way, std::vector<double>> times;

  // The median of all passes; infinite if it was never measured.
  [[nodiscard]] double time(const Way& way) const;
  // How far times are from their median, by the median of that and as a part of it.
  [[nodiscard]] double spread(const Way& way) const;
  [[nodiscard]] const Way& fastest() const;
  // The fastest, unless `before` is as good as that: within `noise`, or within twice what both are spread.
  [[nodiscard]] const Way& best() const;
  // Not worth another pass.
  [[nodiscard]] bool is_out(const Way& way) const;

  static constexpr double noise = 0.05;
};

struct Sweep {
  std::string collective;
  std::vector<Cell> cells;  // by size
};

// A size is meant for all that are nearer to it than to its neighbours, in the ratio. Lines of a tuning file, for these
// ranks on these hosts.
[[nodiscard]] std::string tuning_lines(const Sweep& sweep, u32 ranks, u32 hosts);
// A row for each size where the best way isn't the one before. `before`: "model", "file".
[[nodiscard]] std::string text_of_changes(const std::vector<Sweep>& sweeps, std::string_view before);

// "64K", "16M", "1000"
[[nodiscard]] std::string size_word(u64 bytes);

}  // namespace softib::perf::tune
