// One rank of a run: its communicator, its buffers, and the loop over types, operators, roots and sizes.
#pragma once

#include <string>
#include <vector>

#include "perf/collective.h"
#include "perf/meeting/meeting.h"
#include "perf/options.h"
#include "perf/stop.h"

namespace softib::perf {

// What all ranks of a process share.
struct Run {
  std::string program;
  std::vector<std::string> arguments;  // with the program's name
  Options options;
  Meeting meeting;
  const Collective* collective = nullptr;

  [[nodiscard]] u32 ranks() const { return meeting.processes * options.ranks_here(); }
};

// Number `thread` of this process, in a thread of its own. Returns when the run is over, having said on stderr why
// where it isn't a success.
[[nodiscard]] Exit run_rank(const Run& run, u32 thread);

}  // namespace softib::perf
