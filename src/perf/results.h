// What a run measures, before anybody has written it down.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/collective.h"

namespace softib::perf {

// A rank, as the list of devices shows it.
struct Device {
  u32 rank = 0;
  u32 group = 0;
  i32 process = 0;
  std::string host;
  u32 index = 0;          // among the ranks of its host
  std::string place;      // "0000:00:03": NUMA node, package, processor where it ran when it began, in hexadecimal
  std::string processor;  // "AMD EPYC 7B13"
};

// Of the times of single operations (-I), in seconds.
struct Iterations {
  std::vector<double> seconds;                  // by iteration: of the slowest process
  std::vector<std::vector<double>> by_process;  // ... and of each; empty if there is one only
};

struct Summary {
  double least = 0, most = 0, mean = 0, p50 = 0, p95 = 0, p99 = 0, deviation = 0;
  // The deviation in percent of the mean.
  [[nodiscard]] double variation() const { return mean > 0 ? deviation / mean * 100 : 0; }
};

// Of all but the first `skipped`; percentiles are those of the nearest rank, the median the upper one.
[[nodiscard]] Summary summary_of(const Iterations& iterations, u32 skipped);

struct Measured {
  double seconds = 0;  // what the column of the time shows
  Bandwidth bandwidth;
  std::optional<u64> wrong;  // empty where nothing was checked
  std::optional<Iterations> iterations;
};

struct Row {
  u64 bytes = 0;
  u64 count = 0;
  std::string type;
  std::string op;
  i32 root = -1;
  Measured out_of_place;
  Measured in_place;
};

struct Verdict {
  u64 failures = 0;      // checks with wrong values, over all ranks
  double bandwidth = 0;  // average of all rows' bus bandwidths, GB/s
  double wanted = -1;    // negative: nothing

  [[nodiscard]] bool checks_bandwidth() const { return wanted != -1; }
  [[nodiscard]] bool is_fast_enough() const { return bandwidth >= wanted * 0.9; }
};

// Bytes in use by this process.
struct MemoryUse {
  i64 initialization = 0;
  i64 buffers = 0;
  i64 collectives = 0;
};

}  // namespace softib::perf
