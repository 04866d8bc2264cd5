// A scenario, done to a running fabric.
#pragma once

#include <csignal>
#include <optional>

#include "cli/fault_session.h"
#include "fabric/faults/plan.h"

namespace softib::cli {

struct ScenarioOptions {
  u64 seed = 1;
  bool undo = false;     // whatever is left, at the end
  bool dry_run = false;  // only says what would be done when
};

// Prints each fault with its time. Gives an exit code: 0, 1 when a fault was refused, 128 + signal when a signal ended
// it.
[[nodiscard]] int run_scenario(FaultSession& session, const fabric::Scenario& scenario, const ScenarioOptions& options);

}  // namespace softib::cli
