// Who sends how much to whom in alltoallv_perf.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coll/error.h"

namespace softib::perf {

class Traffic {
 public:
  // Of `total` bytes that each rank sends, a share for each rank that grows with the distance to it, or by
  // `spread` < 1 is more or less the same for all.
  [[nodiscard]] static Traffic by_distance(double spread);
  // Square, whitespace between numbers, a line a sender: bytes, multiplied by `scale`, then cut to 16.
  [[nodiscard]] static coll::Outcome<Traffic> of_text(std::string_view text, const std::string& name, double scale);
  // As the environment has it; see docs/collectives.md.
  [[nodiscard]] static coll::Outcome<Traffic> of_environment();

  [[nodiscard]] bool is_matrix() const { return !matrix_.empty(); }
  [[nodiscard]] u64 dimension() const { return matrix_.size(); }
  [[nodiscard]] double spread() const { return spread_; }
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // A multiple of 16.
  [[nodiscard]] u64 bytes(u32 from, u32 to, u32 ranks, u64 total) const;

 private:
  double spread_ = 1;
  double scale_ = 1;
  std::string name_;
  std::vector<std::vector<u64>> matrix_;
};

}  // namespace softib::perf
