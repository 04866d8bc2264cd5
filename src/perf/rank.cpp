#include "perf/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "perf/environment.h"
#include "perf/operations.h"
#include "perf/processor.h"
#include "perf/reporter.h"
#include "perf/world.h"

namespace softib::perf {

namespace {

// What a block of rows has in common.
struct Case {
  coll::DataType type;
  coll::Op op;
  u32 root;
  i32 shown_root;
  std::string shown_op;
};

std::vector<coll::DataType> types_of(const Options& options) {
  if (options.type) return {*options.type};
  std::vector<coll::DataType> types;
  for (const coll::TypeRow& row : coll::type_table) types.push_back(row.type);
  return types;
}

std::vector<coll::Op> operators_of(const Options& options, const Collective& collective) {
  if (collective.operators() != Operators::listed) return {coll::Op::sum};
  if (options.op) return {*options.op};
  std::vector<coll::Op> all;
  for (const std::string_view name : coll::op_names) all.push_back(*coll::op_from_name(name));
  return all;
}

std::vector<u32> roots_of(const Options& options, const Collective& collective, u32 ranks) {
  if (!collective.has_root()) return {0};
  if (options.root >= 0) return {static_cast<u32>(options.root)};
  std::vector<u32> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<Case> cases_of(const Options& options, const Collective& collective, u32 ranks) {
  std::vector<Case> cases;
  for (const coll::DataType type : types_of(options))
    for (const coll::Op op : operators_of(options, collective))
      for (const u32 root : roots_of(options, collective, ranks)) {
        std::string shown(collective.operators() == Operators::none ? "none" : "");
        if (collective.operators() == Operators::listed) shown = coll::name_of(op);
        cases.push_back({type, op, root, collective.has_root() ? static_cast<i32>(root) : -1, shown});
      }
  return cases;
}

std::vector<u64> sizes_of(const Options& options) {
  std::vector<u64> sizes;
  for (u64 size = options.min_bytes; size <= options.max_bytes; size = options.next_size(size)) sizes.push_back(size);
  return sizes;
}

std::string size_text(u64 bytes) {
  if (bytes >= u64{1} << 30 && bytes % (u64{1} << 30) == 0) return fmt::format("{} GiB", bytes >> 30);
  if (bytes >= u64{1} << 20 && bytes % (u64{1} << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= u64{1} << 10 && bytes % (u64{1} << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

coll::Config config_of(const Options& options, const std::string& program) {
  coll::Config config;
  config.name = program;
  if (options.timeout != 0) config.timeout = std::chrono::seconds(options.timeout);
  return config;
}

class RankRun {
 public:
  RankRun(const Run& run, u32 thread)
      : run_(run),
        options_(run.options),
        rank_(run.meeting.process * run.options.ranks_here() + thread),
        reporter_(options_, run.program, rank_ == 0) {}

  Exit go() {
    try {
      return measure_all();
    } catch (const Stop& stop) {
      return stopped(stop);
    } catch (const std::exception& error) {  // out of memory
      return stopped({Exit::internal_error, error.what()});
    }
  }

 private:
  Exit measure_all() {
    reporter_.begin(run_.arguments);
    connect();
    write_devices();
    fit_memory();
    look_for_faults();
    Buffers buffers(group(), options_, options_.max_bytes + u64{8} * options_.unaligned + 64);
    note_memory(use_.buffers);
    Operations operations(options_, *run_.collective, *world_, group(), buffers);
    const std::vector<Case> cases = cases_of(options_, *run_.collective, group().size());
    const std::vector<u64> sizes = sizes_of(options_);
    reporter_.write_columns(cases.size() * sizes.size() * options_.cycles);
    const auto skipped = run_.collective->skipped(group().size());
    if (skipped) reporter_.write_line(*skipped);
    for (const Case& each : cases)
      if (!skipped) run_case(operations, each, sizes);
    note_memory(use_.collectives);
    return conclude(operations.failures());
  }

  void connect() {
    resident_ = resident_memory();
    world_ = std::make_unique<World>(
        must(coll::Communicator::create(run_.meeting.id, run_.ranks(), rank_, config_of(options_, run_.program))),
        options_.timeout);
    color_ = color_of(run_.meeting.process, tests_variable("SPLIT_MASK"), tests_variable("SPLIT"));
    const std::vector<u32> colors = world_->gather(color_);
    const bool one_group = std::all_of(colors.begin(), colors.end(), [&](u32 color) { return color == color_; });
    if (!one_group)
      group_ = must(world_->communicator().split(static_cast<i32>(color_ & 0x7fffffff), static_cast<i32>(rank_)));
    note_memory(use_.initialization);
  }

  [[nodiscard]] coll::Communicator& group() { return group_ ? *group_ : world_->communicator(); }

  // How many ranks before this one, and in all, are on its host.
  [[nodiscard]] std::pair<u32, u32> neighbours() {
    const auto members = world_->communicator().members();
    u32 before = 0;
    u32 all = 0;
    for (const coll::Member& member : members) {
      if (member.host_key != members[rank_].host_key) continue;
      ++all;
      if (member.rank < rank_) ++before;
    }
    return {before, all};
  }

  void write_devices() {
    const std::vector<std::string> places = world_->gather_texts(processor_place());
    const std::vector<std::string> names = world_->gather_texts(processor_name());
    const std::vector<u32> indices = world_->gather(neighbours().first);
    const std::vector<u32> colors = world_->gather(color_);
    std::vector<Device> devices;
    for (const coll::Member& member : world_->communicator().members())
      devices.push_back({member.rank, colors[member.rank], member.process, member.host.substr(0, member.host.find('.')),
                         indices[member.rank], places[member.rank], names[member.rank]});
    reporter_.write_devices(devices);
  }

  // Two buffers, and one of what is expected, for each rank of the host; a quarter is left for others.
  void fit_memory() {
    const u64 mine = available_memory() / 4 * 3 / neighbours().second / (options_.checks != 0 ? 3 : 2);
    const std::vector<u64> all = world_->gather(mine);
    const u64 most = *std::min_element(all.begin(), all.end());
    if (options_.max_bytes <= most) return;
    options_.max_bytes = most;
    options_.min_bytes = std::min(options_.min_bytes, most);
    reporter_.write_line(fmt::format("#\n# Reducing maxBytes to {} due to memory limitation", most));
  }

  void look_for_faults() {
    if (run_.collective->has_root() && options_.root >= static_cast<i32>(group().size()))
      throw Stop{Exit::invalid_usage, fmt::format("-r {}: there are {} ranks", options_.root, group().size())};
    const auto refused = run_.collective->refused(options_.min_bytes, options_.max_bytes, group().size());
    if (refused) throw Stop{Exit::invalid_usage, *refused};
  }

  [[nodiscard]] Setting setting_of(const Case& each, u64 bytes) {
    const u64 size = coll::size_of(each.type);
    Setting setting{each.type, each.op, group().size(), group().rank(), each.root, {}, 0};
    setting.shape = run_.collective->shape(bytes / size, size, setting.ranks);
    return setting;
  }

  void run_case(Operations& operations, const Case& each, const std::vector<u64>& sizes) {
    world_->barrier();
    for (u64 size = options_.min_bytes; size <= options_.max_bytes; size *= 2) {
      operations.choose(setting_of(each, size));
      operations.warm_up();
    }
    for (u32 cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle)
      for (const u64 size : sizes) {
        reporter_.announce(fmt::format("{} {} {}", size_text(size), coll::name_of(each.type), each.shown_op));
        operations.choose(setting_of(each, size));
        run_row(operations, each);
      }
  }

  void run_row(Operations& operations, const Case& each) {
    const Setting& setting = operations.setting();
    Row row{setting.bytes(std::max(setting.shape.sent, setting.shape.received)),
            setting.shape.count,
            std::string(coll::name_of(each.type)),
            each.shown_op,
            each.shown_root,
            operations.measure(Placement::out_of_place),
            {}};
    row.in_place = operations.measure(Placement::in_place);
    for (const Measured* measured : {&row.out_of_place, &row.in_place}) {
      bandwidths_ += measured->bandwidth.bus;
      ++measurements_;
    }
    reporter_.write_row(row, run_.collective->remark(setting, row.out_of_place.seconds));
  }

  Exit conclude(u64 failures) {
    Verdict verdict{0, measurements_ != 0 ? bandwidths_ / measurements_ : 0, least_bandwidth()};
    for (const u64 each : world_->gather(failures)) verdict.failures += each;
    const std::vector<MemoryUse> uses = world_->gather(use_);
    const MemoryUse most = most_of(uses);
    const bool good = verdict.failures == 0 && verdict.is_fast_enough();
    reporter_.write_verdict(verdict);
    reporter_.write_memory(most);
    reporter_.end({});
    return good ? Exit::success : Exit::wrong_results;
  }

  static MemoryUse most_of(const std::vector<MemoryUse>& uses) {
    MemoryUse most;
    for (const MemoryUse& use : uses) {
      most.initialization = std::max(most.initialization, use.initialization);
      most.buffers = std::max(most.buffers, use.buffers);
      most.collectives = std::max(most.collectives, use.collectives);
    }
    return most;
  }

  // What has come to this process since the last look.
  void note_memory(i64& into) {
    const i64 now = resident_memory();
    into = now - resident_;
    resident_ = now;
  }

  // The others shouldn't wait for this one.
  Exit stopped(const Stop& stop) {
    const std::string text = fmt::format("{}: rank {}: {}", run_.program, rank_, stop.text);
    std::fprintf(stderr, "%s\n", text.c_str());
    if (world_ && !world_->communicator().async_error()) world_->communicator().abort(stop.text);
    reporter_.end(stop.text);
    return stop.code;
  }

  const Run& run_;
  Options options_;  // with a size that fits
  u32 rank_;
  u32 color_ = 0;
  Reporter reporter_;
  std::unique_ptr<World> world_;
  std::unique_ptr<coll::Communicator> group_;  // before the world is gone
  i64 resident_ = 0;
  MemoryUse use_;
  double bandwidths_ = 0;
  u32 measurements_ = 0;
};

}  // namespace

Exit run_rank(const Run& run, u32 thread) { return RankRun(run, thread).go(); }

}  // namespace softib::perf
