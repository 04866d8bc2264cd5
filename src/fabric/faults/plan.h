// A scenario as it happens: what is done when. The same seed gives the same faults, at the same times.
#pragma once

#include <optional>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

#include "fabric/faults/scenario.h"
#include "fabric/faults/words.h"

namespace softib::fabric {

struct PlannedFaults {
  u64 at = 0;  // nanoseconds from the start
  bool undo = false;
  std::vector<FaultRequest> faults;
};

class ScenarioPlan {
 public:
  // Scenario and fabric live longer than this.
  ScenarioPlan(const Scenario& scenario, const Fabric& fabric, u64 seed);

  // In order of time; nothing: it is over. One without an end goes on for ever.
  std::optional<PlannedFaults> next();

 private:
  struct Due {
    u64 at;
    u64 order;  // of what is due at the same time
    u32 step;
    std::vector<FaultRequest> undo;  // empty: the step itself
    friend bool operator<(const Due& a, const Due& b) { return std::tie(b.at, b.order) < std::tie(a.at, a.order); }
  };

  void schedule(u32 step, u64 at);
  [[nodiscard]] u64 interval(u32 step);
  [[nodiscard]] size_t draw(u32 step, size_t count);
  [[nodiscard]] std::vector<FaultRequest> choose(u32 step);
  void choose_line(u32 step, const FaultLine& line, std::vector<FaultRequest>& chosen);
  [[nodiscard]] bool is_pointless(const FaultRequest& fault) const;

  const Scenario& scenario_;
  const Fabric& fabric_;
  std::vector<std::mt19937_64> chance_;  // of each step: a step more or less changes nothing for the others
  std::priority_queue<Due> due_;
  u64 order_ = 0;
};

}  // namespace softib::fabric
