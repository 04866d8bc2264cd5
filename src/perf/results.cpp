#include "perf/results.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace softib::perf {

Summary summary_of(const Iterations& iterations, u32 skipped) {
  std::vector<double> sorted(iterations.seconds.begin() + skipped, iterations.seconds.end());
  if (sorted.empty()) return {};
  std::sort(sorted.begin(), sorted.end());
  const std::size_t count = sorted.size();
  const auto nearest = [&](std::size_t percent) { return sorted[std::min(count, (count * percent + 99) / 100) - 1]; };
  Summary summary;
  summary.least = sorted.front();
  summary.most = sorted.back();
  summary.p50 = sorted[count / 2];
  summary.p95 = nearest(95);
  summary.p99 = nearest(99);
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(count);
  double squares = 0;
  for (const double seconds : sorted) squares += (seconds - summary.mean) * (seconds - summary.mean);
  summary.deviation = std::sqrt(squares / static_cast<double>(count));
  return summary;
}

}  // namespace softib::perf
