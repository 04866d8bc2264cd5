#include "perf/tune/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace softib::perf::tune {

namespace {

// A way that is so much slower than the best one in a first pass is no candidate.
constexpr double hopeless = 3;

constexpr std::array<std::pair<std::string_view, const char*>, 8> benchmarks{{
    {"all_reduce", "all_reduce"},
    {"all_gather", "all_gather"},
    {"reduce_scatter", "reduce_scatter"},
    {"broadcast", "broadcast"},
    {"reduce", "reduce"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"all_to_all", "alltoall"},
}};

u64 between(u64 smaller, u64 larger) {
  return static_cast<u64>(std::llround(std::sqrt(static_cast<double>(smaller) * static_cast<double>(larger))));
}

double percent(double now, double before) { return (now / before - 1) * 100; }

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// "12.3 us +- 4 %", or what one time tells.
std::string measured(const Cell& cell, const Way& way) {
  const auto found = cell.times.find(way);
  if (found != cell.times.end() && found->second.size() == 1)
    return fmt::format("{:.1f} us, once", cell.time(way) * 1e6);
  return fmt::format("{:.1f} us +- {:.0f} %", cell.time(way) * 1e6, cell.spread(way) * 100);
}

std::string remark_on(const Cell& cell) {
  std::string text = fmt::format("# {}: {}", size_word(cell.bytes), measured(cell, cell.best()));
  if (cell.best() == cell.before) return text + ", as by the model";
  return text + fmt::format("; {} {} ({:+.0f} %)", text_of(cell.before), measured(cell, cell.before),
                            percent(cell.time(cell.best()), cell.time(cell.before)));
}

}  // namespace

std::string text_of(const Way& way) {
  return fmt::format("{}, {} lane{}", way.algorithm, way.lanes, way.lanes == 1 ? "" : "s");
}

const char* benchmark_of(std::string_view collective) {
  for (const auto& [name, benchmark] : benchmarks)
    if (name == collective) return benchmark;
  return nullptr;
}

std::vector<std::string> tunable_collectives() {
  std::vector<std::string> names;
  for (const auto& row : benchmarks) names.emplace_back(row.first);
  return names;
}

double Cell::time(const Way& way) const {
  const auto found = times.find(way);
  if (found == times.end()) return std::numeric_limits<double>::infinity();
  return median_of(found->second);
}

double Cell::spread(const Way& way) const {
  const auto found = times.find(way);
  if (found == times.end()) return 0;
  const double middle = median_of(found->second);
  std::vector<double> distances;
  for (const double each : found->second) distances.push_back(std::abs(each - middle));
  return median_of(distances) / middle;
}

const Way& Cell::fastest() const {
  const Way* found = &before;
  for (const auto& [way, each] : times)
    if (time(way) < time(*found)) found = &way;
  return *found;
}

const Way& Cell::best() const {
  const Way& first = fastest();
  const double margin = std::max(noise, 2 * (spread(before) + spread(first)));
  return time(before) <= time(first) * (1 + margin) ? before : first;
}

bool Cell::is_out(const Way& way) const {
  return way != before && !times.empty() && time(way) > time(fastest()) * hopeless;
}

std::string size_word(u64 bytes) {
  constexpr std::array<std::pair<u64, char>, 3> units{{{u64{1} << 30, 'G'}, {u64{1} << 20, 'M'}, {u64{1} << 10, 'K'}}};
  for (const auto& [unit, letter] : units)
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, letter);
  return fmt::format("{}", bytes);
}

std::string tuning_lines(const Sweep& sweep, u32 ranks, u32 hosts) {
  std::string text;
  std::string remarks;
  for (std::size_t i = 0; i < sweep.cells.size(); ++i) {
    const Cell& cell = sweep.cells[i];
    const bool last = i + 1 == sweep.cells.size();
    remarks += remark_on(cell) + "\n";
    if (!last && sweep.cells[i + 1].best() == cell.best()) continue;
    const std::string up_to = last ? "*" : size_word(between(cell.bytes, sweep.cells[i + 1].bytes));
    const Way& way = cell.best();
    text += std::exchange(remarks, {});
    text += fmt::format("{:<14} {:>5} {:>5} {:>6} {:<21} {:>3} {:>3}\n", sweep.collective, ranks, hosts, up_to,
                        way.algorithm, way.lanes, way.window);
  }
  return text;
}

std::string text_of_changes(const std::vector<Sweep>& sweeps, std::string_view before) {
  std::string text;
  u32 cells = 0;
  u32 changed = 0;
  double logarithms = 0;
  for (const Sweep& sweep : sweeps)
    for (const Cell& cell : sweep.cells) {
      ++cells;
      if (cell.best() == cell.before) continue;
      ++changed;
      const double now = cell.time(cell.best());
      const double then = cell.time(cell.before);
      logarithms += std::log(now / then);
      text += fmt::format("{:<14} {:>6}  {:<32} {:>20}   {}: {:<32} {:>20}  {:+.0f} %\n", sweep.collective,
                          size_word(cell.bytes), text_of(cell.best()), measured(cell, cell.best()), before,
                          text_of(cell.before), measured(cell, cell.before), percent(now, then));
    }
  text += fmt::format("{} of {} choices are other than by the {}", changed, cells, before);
  if (changed != 0)
    text += fmt::format(", and take {:+.0f} % of time on average", percent(std::exp(logarithms / changed), 1));
  return text + "\n";
}

}  // namespace softib::perf::tune
