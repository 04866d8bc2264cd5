// Operations of one rank on its buffers: started, waited for, timed, checked.
#pragma once

#include <deque>
#include <vector>

#include "perf/buffers.h"
#include "perf/collective.h"
#include "perf/options.h"
#include "perf/results.h"
#include "perf/world.h"

namespace softib::perf {

enum class Placement : u8 { out_of_place, in_place };

class Operations {
 public:
  Operations(const Options& options, const Collective& collective, World& world, coll::Communicator& group,
             Buffers& buffers)
      : options_(options), collective_(collective), world_(world), group_(group), buffers_(buffers) {}

  // What comes is of this kind and size.
  void choose(const Setting& setting) { setting_ = setting; }
  [[nodiscard]] const Setting& setting() const { return setting_; }

  void warm_up();
  // Collective over all ranks of the run, as are the numbers that come of it.
  [[nodiscard]] Measured measure(Placement placement);
  // Checks of this rank that found wrong values.
  [[nodiscard]] u64 failures() const { return failures_; }

 private:
  struct Times {
    double seconds = 0;
    double processor_seconds = 0;
    std::vector<double> each;
  };

  [[nodiscard]] coll::Request start(Placement placement, u64 number);
  void finish(coll::Request request);
  void run_one(Placement placement, u64 number);
  void run_aggregated(Placement placement, u64 first);
  [[nodiscard]] u64 distinct_places() const;
  [[nodiscard]] Times time_all(Placement placement);
  [[nodiscard]] double combined(double mine);
  [[nodiscard]] Iterations gathered(const std::vector<double>& mine);
  void prepare(Placement placement, u64 seed);
  [[nodiscard]] u64 check(Placement placement);
  [[nodiscard]] bool is_checked(Placement placement) const;
  [[nodiscard]] std::byte* input(Placement placement);
  [[nodiscard]] std::byte* output(Placement placement);

  const Options& options_;
  const Collective& collective_;
  World& world_;
  coll::Communicator& group_;
  Buffers& buffers_;
  Setting setting_;
  u64 repetition_ = 0;
  u64 failures_ = 0;
};

}  // namespace softib::perf
