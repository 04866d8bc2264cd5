#include "perf/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <ctime>

namespace softib::perf {

namespace {

// The version of nccl-tests whose output this is.
constexpr const char* model_version = "2.19.6";
// SoftIB's own, as NCCL writes versions in a number: 10000 * major + 100 * minor + patch.
constexpr int library_version = SOFTIB_PERF_VERSION_NUMBER;
constexpr const char* library_name = "SoftIB " SOFTIB_PERF_VERSION;

constexpr const char* time_format = "%Y-%m-%d %H:%M:%S";
constexpr int time_width = 19;

std::string blocking_note(Blocking blocking) {
  switch (blocking) {
    case Blocking::none:
      return {};
    case Blocking::barrier_each:
      return "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n";
    case Blocking::wait_each:
      return "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n";
    case Blocking::barrier_outer:
      return "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n";
  }
  return {};
}

std::string per_iteration_note(const Options& options) {
  if (!options.per_iteration) return {};
  std::string note = "# Per-Iteration Report: wall-clock timing; i_* uses max over process rows";
  if (options.skipped != 0) note += fmt::format("; summary skips first {} iterations", options.skipped);
  return note + " \n";
}

// The line of column names, and that of units below it.
struct Columns {
  std::array<const char*, 5> first;
  std::array<const char*, 4> rates;
  std::array<const char*, 4> iterations;
  const char* time_of_day;
};

std::string text_of(const Options& options, const Columns& columns) {
  const auto& [first, rates, iterations, time] = columns;
  std::string line =
      fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", first[0], first[1], first[2], first[3], first[4]);
  for (int placement = 0; placement < 2; ++placement) {
    line += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", rates[0], rates[1], rates[2], rates[3]);
    if (!options.per_iteration) continue;
    for (const char* name : iterations) line += fmt::format("  {:>7}", name);
  }
  return line + fmt::format(" {:>{}}\n", options.timestamps ? time : "", options.timestamps ? time_width : 0);
}

std::string text_of(const Options& options, const Measured& measured) {
  std::string text =
      fmt::format("  {:>7}  {:>6}  {:>6}", text_of_number(measured.seconds * 1e6, 7),
                  text_of_number(measured.bandwidth.algorithm, 6), text_of_number(measured.bandwidth.bus, 6));
  text += measured.wrong ? fmt::format("  {:>6g}", static_cast<double>(*measured.wrong)) : "     N/A";
  if (!measured.iterations) return text;
  const Summary summary = summary_of(*measured.iterations, options.skipped);
  for (const double value : {summary.least * 1e6, summary.most * 1e6, summary.p99 * 1e6, summary.variation()})
    text += fmt::format("  {:>7}", text_of_number(value, 7));
  return text;
}

std::string text_of_bytes(i64 bytes) {
  constexpr std::array<const char*, 4> units{" B", " KB", " MB", " GB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(amount) >= 1024 && unit + 1 < units.size()) {
    amount /= 1024;
    ++unit;
  }
  const int decimals = std::abs(amount) < 10 ? 2 : std::abs(amount) < 100 ? 1 : 0;
  return fmt::format("{:.{}f}{}", amount, decimals, units[unit]);
}

}  // namespace

std::string text_of_number(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0).substr(0, static_cast<std::size_t>(width));
}

std::string time_of_day() { return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr))); }

std::string text_of_heading(const Options& options, const std::string& program) {
  const bool by_factor = options.step_factor > 1;
  std::string text = fmt::format("# nccl-tests version {} nccl-headers={} nccl-library={} ({})\n", model_version,
                                 library_version, library_version, library_name);
  text += fmt::format("# Collective test starting: {}\n", program);
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} "
      "validation: {} graph: 0 unalign: {}\n",
      options.threads, options.per_thread, options.min_bytes, options.max_bytes,
      by_factor ? options.step_factor : options.step_bytes, by_factor ? "factor" : "bytes", options.warm_up,
      options.iterations, options.aggregated, options.checks, options.unaligned);
  text += blocking_note(options.blocking) + per_iteration_note(options);
  if (options.parallel_init) text += "# Parallel Init Enabled: threads call into NcclInitRank concurrently \n";
  return text + "#\n# Using devices\n";
}

std::string text_of_device(const Device& device) {
  return fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n", device.rank, device.group,
                     device.process, device.host, device.index, device.place, device.processor);
}

std::string text_of_columns(const Options& options) {
  const std::string gap = fmt::format("# {:10}  {:12}  {:8}  {:6}  {:6}", "", "", "", "", "");
  std::string text = "#\n" + gap;
  if (options.per_iteration) {
    text += fmt::format("{:14}out-of-place (+ per-iteration){:32}in-place (+ per-iteration)\n", "", "");
  } else {
    text += fmt::format("{:11}out-of-place{:23}in-place          \n", "", "");
  }
  text += text_of(options, {{"size", "count", "type", "redop", "root"},
                            {options.cpu_time ? "cputime" : "time", "algbw", "busbw", "#wrong"},
                            {"i_min", "i_max", "i_p99", "i_cv%"},
                            "timestamp"});
  return text + text_of(options, {{"(B)", "(elements)", "", "", ""},
                                  {"(us)", "(GB/s)", "(GB/s)", ""},
                                  {"(us)", "(us)", "(us)", "(%)"},
                                  time_format});
}

std::string text_of_row(const Options& options, const Row& row, const std::string& time) {
  std::string text = fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}", row.bytes, row.count, row.type, row.op, row.root);
  text += text_of(options, row.out_of_place) + text_of(options, row.in_place);
  if (options.timestamps) text += fmt::format("{:>21}", time);
  return text + "\n";
}

std::string text_of_verdict(const Verdict& verdict, const std::string& program) {
  std::string text = fmt::format("# {:<20} : {} {}\n", "Out of bounds values", verdict.failures,
                                 verdict.failures != 0 ? "FAILED" : "OK");
  const char* speed = !verdict.checks_bandwidth() ? "" : verdict.is_fast_enough() ? "OK" : "FAILED";
  text += fmt::format("# {:<20} : {:g} {}\n", "Avg bus bandwidth", verdict.bandwidth, speed);
  return text + fmt::format("#\n# Collective test concluded: {}\n", program);
}

std::string text_of_memory(const MemoryUse& use) {
  return fmt::format("# {:<20} : Initialization {} | User-Allocated {} | Collective {} | Total  {}\n",
                     "GPU memory usage", text_of_bytes(use.initialization), text_of_bytes(use.buffers),
                     text_of_bytes(use.collectives), text_of_bytes(use.initialization + use.buffers + use.collectives));
}

std::string text_of_end(const std::string& error) {
  return error.empty() ? "#\n\n" : fmt::format("#\n# error: {}\n", error);
}

}  // namespace softib::perf
