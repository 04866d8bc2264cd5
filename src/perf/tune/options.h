// The command line of softib coll tune.
#pragma once

#include <string>
#include <vector>

#include "perf/options.h"

namespace softib::perf::tune {

struct TuneOptions {
  Options run;  // sizes, memory, and what starts ranks
  std::vector<std::string> collectives;
  double seconds = 60;    // more or less
  double tolerance = 25;  // percent
  std::string output;
  std::string check;
};

struct TuneLine {
  CommandLine::Kind kind = CommandLine::Kind::run;
  TuneOptions options;
  std::string text;  // help, or why it is refused
};

[[nodiscard]] TuneLine parse_tune_line(int argc, const char* const* argv);

}  // namespace softib::perf::tune
