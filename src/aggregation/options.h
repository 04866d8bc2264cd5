// The command line of softib-aggregation.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "base/types.h"
#include "options/command_line.h"

namespace softib::aggregation {

// What hardware documents of its own limits is told in docs/in-network.md.
struct Options {
  std::vector<std::string> devices;  // empty: all
  bool manager = false;
  bool node = true;
  u32 most_jobs = 126;        // of the manager: so many trees at once
  u32 jobs_of_node = 64;      // of a node
  u32 most_children = 64;     // of a node: its radix
  u32 segment_bytes = 16320;  // with its header it fills four packets of 4096
  u32 outstanding = 16;       // segments of a job
  u32 keep_alive_ms = 1000;   // who is silent for so long is probed
  u32 lease_s = 60;           // of the manager's service record
  int ready_fd = -1;
  bool verbose = false;
};

[[nodiscard]] tl::expected<Options, Ending> parse_command_line(int argc, const char* const* argv);

}  // namespace softib::aggregation
