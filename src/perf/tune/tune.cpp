#include "perf/tune/tune.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "coll/schedule/algorithms.h"
#include "coll/tune/rules.h"
#include "perf/buffers.h"
#include "perf/operations.h"
#include "perf/progress.h"
#include "perf/tune/choices.h"
#include "perf/tune/rules_file.h"
#include "perf/world.h"

namespace softib::perf::tune {

namespace {

using TuneClock = std::chrono::steady_clock;

constexpr std::array<u32, 5> tried_lanes{1, 2, 4, 8, 16};
constexpr u32 usual_window = 4;
constexpr u64 least_lane_bytes = 4096;  // a slice below that is all overhead
constexpr u32 most_passes = 5;
constexpr u32 wanted_passes = 3;
constexpr double least_seconds = 0.0005;  // of one measurement
constexpr double most_seconds = 0.02;

std::string rules_of(const Way& way) {
  std::string text;
  for (const std::string& collective : tunable_collectives())
    if (find_algorithm(*coll::collective_from_name(collective), coll::algorithms_from_name(way.algorithm).front()))
      text += fmt::format("{} * * * {} {} {}\n", collective, way.algorithm, way.lanes, way.window);
  return text;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Stop{Exit::invalid_usage, path + " can't be read"};
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", fmt::localtime(now));
}

class TuneRun {
 public:
  TuneRun(const TuneOptions& options, const Meeting& meeting)
      : options_(options), run_(options.run), meeting_(meeting) {}

  Exit go() {
    try {
      return tune();
    } catch (const Stop& stop) {
      return stopped(stop);
    } catch (const std::exception& error) {  // out of memory
      return stopped({Exit::internal_error, error.what()});
    }
  }

 private:
  struct Measurement {
    Cell* cell;
    Way way;
    double seconds;
  };

  Exit tune() {
    coll::Config config;
    config.name = "softib coll tune";
    world_ = std::make_unique<World>(
        must(coll::Communicator::create(meeting_.id, meeting_.processes, meeting_.process, config)));
    if (world_->size() == 1) throw Stop{Exit::invalid_usage, "one rank has nothing to choose: say -np or --hosts"};
    if (std::getenv("SOFTIB_COLLNET_ENABLE") != nullptr) look_for_network();
    begin_ = TuneClock::now();
    for (const std::string& name : options_.collectives) benchmarks_.push_back(make_collective(benchmark_of(name)));
    if (const auto refused = read_checked()) return tell_refused(*refused);
    note_choices();
    collect_ways();
    measure_all();
    return conclude();
  }

  // Each trial has a communicator of its own, and each would ask for aggregation nodes, and wait for those who don't
  // answer: it has been told once why they can't be had.
  void look_for_network() const {
    if (!world_->communicator().has_network()) ::setenv("SOFTIB_COLLNET_ENABLE", "0", 1);
  }

  // Why the file that is checked can't be.
  std::optional<Stop> read_checked() {
    if (options_.check.empty()) return {};
    checked_ = world_->gather_texts(writes() ? content_of(options_.check) : std::string()).front();
    const auto lines = coll::parse_tuning(checked_);
    if (!lines) return Stop{Exit::library_error, fmt::format("{}: {}", options_.check, lines.error().text)};
    if (std::any_of(lines->begin(), lines->end(), [&](const coll::TuningLine& line) { return holds_here(line); }))
      return {};
    return Stop{Exit::invalid_usage,
                fmt::format("no line of {} is for {} ranks on {} host{} and the collectives that are measured\n"
                            "Check it with the ranks that it was made for, or make one for these: softib coll tune ... "
                            "-o FILE",
                            options_.check, world_->size(), hosts(), hosts() == 1 ? "" : "s")};
  }

  // All ranks have the same text, so all come to the same end, and one tells.
  [[nodiscard]] Exit tell_refused(const Stop& stop) const {
    if (writes()) fmt::print(stderr, "softib coll tune: {}\n", stop.text);
    return stop.code;
  }

  // Where none does, the model would be compared with itself.
  [[nodiscard]] bool holds_here(const coll::TuningLine& line) const {
    const auto is_it = [&](const std::string& name) { return coll::collective_from_name(name) == line.collective; };
    return std::any_of(options_.collectives.begin(), options_.collectives.end(), is_it) &&
           line.ranks.value_or(world_->size()) == world_->size() && line.hosts.value_or(hosts()) == hosts();
  }

  [[nodiscard]] bool writes() const { return world_->rank() == 0; }

  // Of a communicator that chooses as the text has it.
  std::unique_ptr<coll::Communicator> group_by(const std::string& rules) {
    rules_.set(rules);
    return must(world_->communicator().split(0, static_cast<i32>(world_->rank())));
  }

  void note_choices() {
    const auto group = group_by(checked_);
    for (const std::string& name : options_.collectives) {
      Sweep& sweep = sweeps_.emplace_back(Sweep{name, {}});
      for (u64 bytes = run_.min_bytes; bytes <= run_.max_bytes; bytes = run_.next_size(bytes)) {
        const auto planned = group->planned(name, bytes);
        sweep.cells.push_back({bytes, Way{planned->algorithm, planned->lanes, planned->window}, {}});
      }
    }
  }

  // All algorithms with all numbers of lanes, and what is chosen already.
  void collect_ways() {
    std::set<Way> ways;
    for (const Sweep& sweep : sweeps_) {
      for (const Cell& cell : sweep.cells) ways.insert(cell.before);
      for (const coll::AlgorithmRow& row : coll::algorithms()) {
        if (name_of(row.collective) != sweep.collective) continue;
        for (const u32 lanes : tried_lanes)
          if (lanes >= row.least_lanes)
            ways.insert({std::string(name_of(row.algorithm)), lanes, std::max(usual_window, row.least_lanes)});
      }
    }
    ways_.assign(ways.begin(), ways.end());
  }

  [[nodiscard]] static bool is_candidate(const Sweep& sweep, const Cell& cell, const Way& way) {
    if (cell.before == way) return true;
    const auto algorithm = coll::algorithms_from_name(way.algorithm).front();
    const coll::AlgorithmRow* row = find_algorithm(*coll::collective_from_name(sweep.collective), algorithm);
    if (row == nullptr) return false;
    return (way.lanes == row->least_lanes || cell.bytes / way.lanes >= least_lane_bytes) && !cell.is_out(way);
  }

  [[nodiscard]] u64 measurements() const {
    u64 count = 0;
    for (const Way& way : ways_)
      for (const Sweep& sweep : sweeps_)
        count += static_cast<u64>(std::count_if(sweep.cells.begin(), sweep.cells.end(),
                                                [&](const Cell& cell) { return is_candidate(sweep, cell, way); }));
    return count;
  }

  void measure_all() {
    const double share = options_.seconds * 0.7 / wanted_passes / static_cast<double>(std::max<u64>(1, measurements()));
    seconds_each_ = std::clamp(share, least_seconds, most_seconds);
    for (passes_ = 0; goes_on(); ++passes_) {
      Progress progress(writes() ? Progress::terminal() : std::nullopt, measurements());
      for (const Way& way : ways_) measure_way(way, progress);
      take_measured();
    }
  }

  // By rank 0's clock.
  [[nodiscard]] bool goes_on() {
    const double each = passes_ == 0 ? 0 : spent() / passes_;
    const bool mine = passes_ == 0 || (passes_ < most_passes && spent() + each / 2 < options_.seconds);
    return world_->gather(static_cast<u8>(mine)).front() != 0;
  }

  void measure_way(const Way& way, Progress& progress) {
    const auto wants = [&](const Sweep& sweep) {
      return std::any_of(sweep.cells.begin(), sweep.cells.end(),
                         [&](const Cell& cell) { return is_candidate(sweep, cell, way); });
    };
    if (std::none_of(sweeps_.begin(), sweeps_.end(), wants)) return;
    const auto group = group_by(rules_of(way));
    Buffers buffers(*group, run_, run_.max_bytes + 64);
    for (std::size_t i = 0; i < sweeps_.size(); ++i) {
      Operations operations(run_, *benchmarks_[i], *world_, *group, buffers);
      // What can't be done so here is done otherwise, which is no news.
      const auto planned = group->planned(sweeps_[i].collective, run_.max_bytes);
      if (planned->algorithm != way.algorithm) continue;
      for (Cell& cell : sweeps_[i].cells) {
        if (!is_candidate(sweeps_[i], cell, way)) continue;
        progress.show(fmt::format("pass {}: {} {} by {}", passes_ + 1, sweeps_[i].collective, size_word(cell.bytes),
                                  text_of(way)));
        measured_.push_back({&cell, way, time_of(operations, *benchmarks_[i], cell.bytes)});
        progress.step();
      }
    }
  }

  // Between passes: who is a candidate must not change within one.
  void take_measured() {
    for (const Measurement& each : measured_) each.cell->times[each.way].push_back(each.seconds);
    measured_.clear();
  }

  [[nodiscard]] double time_of(Operations& operations, const Collective& benchmark, u64 bytes) {
    const u64 size = coll::size_of(coll::DataType::float32);
    Setting setting{coll::DataType::float32, coll::Op::sum, world_->size(), world_->rank(), 0, {}, 0};
    setting.shape = benchmark.shape(std::max<u64>(1, bytes / size), size, setting.ranks);
    operations.choose(setting);
    run_.iterations = 2;
    const double first = operations.measure(Placement::out_of_place).seconds;
    run_.iterations = static_cast<u32>(std::clamp(seconds_each_ / std::max(first, 1e-7), 2.0, 2000.0));
    return operations.measure(Placement::out_of_place).seconds;
  }

  [[nodiscard]] u32 hosts() const {
    std::set<u64> keys;
    for (const coll::Member& member : world_->communicator().members()) keys.insert(member.host_key);
    return static_cast<u32>(keys.size());
  }

  [[nodiscard]] std::string heading() const {
    std::vector<std::pair<std::string, u32>> hosts;  // with how many ranks, in their order
    for (const coll::Member& member : world_->communicator().members()) {
      const std::string host = member.host.substr(0, member.host.find('.'));
      if (hosts.empty() || hosts.back().first != host) hosts.emplace_back(host, 0);
      ++hosts.back().second;
    }
    std::string places;
    for (const auto& [host, ranks] : hosts)
      places += ranks == 1 ? fmt::format(" {}", host) : fmt::format(" {}:{}", host, ranks);
    return fmt::format(
        "# softib coll tune, {}: {} ranks on{}.\n"
        "# Times are those of the slowest rank, {}; a remark for each size that was measured.\n"
        "# Use it by SOFTIB_TUNING_FILE; docs/collectives.md tells of the lines.\n"
        "# collective   ranks hosts  up to  algorithm           lanes window\n",
        today(), world_->size(), places,
        passes_ == 1 ? std::string("of one pass") : fmt::format("medians of {} passes", passes_));
  }

  // What was disturbed in the only pass looks slow, and nothing tells.
  void warn_of_one_pass() const {
    if (passes_ > 1 || !writes()) return;
    fmt::print(
        stderr,
        "softib coll tune: --seconds {:g} was enough for one pass, so disturbances can't be told from slow ways; "
        "--seconds {:.0f} is enough for {}\n",
        options_.seconds, std::ceil(spent() * wanted_passes), wanted_passes);
  }

  [[nodiscard]] double spent() const { return std::chrono::duration<double>(TuneClock::now() - begin_).count(); }

  Exit conclude() {
    warn_of_one_pass();
    if (!options_.check.empty()) return compare();
    std::string text = heading();
    for (const Sweep& sweep : sweeps_) text += tuning_lines(sweep, world_->size(), hosts());
    if (!writes()) return Exit::success;
    if (options_.output.empty()) {
      std::fputs(text.c_str(), stdout);
      std::fputs(text_of_changes(sweeps_, "model").c_str(), stderr);
      return Exit::success;
    }
    std::ofstream file(options_.output, std::ios::trunc);
    file << text;
    file.close();
    if (!file) throw Stop{Exit::internal_error, options_.output + " can't be written"};
    std::fputs(text_of_changes(sweeps_, "model").c_str(), stdout);
    fmt::print("{} is written; use it by SOFTIB_TUNING_FILE={}\n", options_.output, options_.output);
    return Exit::success;
  }

  // All ranks have the same times, so all come to the same end.
  Exit compare() {
    u32 slow = 0;
    for (const Sweep& sweep : sweeps_)
      for (const Cell& cell : sweep.cells)
        if (cell.best() != cell.before &&
            cell.time(cell.before) > cell.time(cell.fastest()) * (1 + options_.tolerance / 100))
          ++slow;
    if (writes()) {
      std::fputs(text_of_changes(sweeps_, "file").c_str(), stdout);
      fmt::print("{} of them {} more than {:g} % slower than the best\n", slow, slow == 1 ? "is" : "are",
                 options_.tolerance);
    }
    return slow == 0 ? Exit::success : Exit::wrong_results;
  }

  Exit stopped(const Stop& stop) {
    std::fprintf(stderr, "softib coll tune: rank %u: %s\n", meeting_.process, stop.text.c_str());
    if (world_ && !world_->communicator().async_error()) world_->communicator().abort(stop.text);
    return stop.code;
  }

  const TuneOptions& options_;
  Options run_;  // with the number of iterations that is right for a size
  const Meeting& meeting_;
  RulesFile rules_;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<Collective>> benchmarks_;  // by sweep
  std::vector<Sweep> sweeps_;
  std::string checked_;  // text of the file that is checked
  std::vector<Way> ways_;
  std::vector<Measurement> measured_;  // in this pass
  TuneClock::time_point begin_;
  double seconds_each_ = least_seconds;
  u32 passes_ = 0;
};

}  // namespace

Exit tune_rank(const TuneOptions& options, const Meeting& meeting) { return TuneRun(options, meeting).go(); }

}  // namespace softib::perf::tune
