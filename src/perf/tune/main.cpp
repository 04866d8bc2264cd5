#include <cstdio>
#include <cstdlib>

#include "perf/launch/launcher.h"
#include "perf/launch/variables.h"
#include "perf/processor.h"
#include "perf/tune/tune.h"

namespace {

using namespace softib::perf;

int run_here(const tune::TuneOptions& options) {
  if (std::getenv(variables::process) != nullptr) end_with_launcher();
  if (const char* processors = std::getenv(variables::processors)) stay_on(processors);
  const auto meeting = join_meeting();
  if (!meeting) {
    std::fprintf(stderr, "softib coll tune: %s\n", meeting.error().text.c_str());
    const bool usage = meeting.error().code == softib::coll::Code::invalid_usage;
    return to_int(usage ? Exit::invalid_usage : Exit::library_error);
  }
  return to_int(tune::tune_rank(options, *meeting));
}

}  // namespace

int main(int argc, char** argv) {
  const tune::TuneLine line = tune::parse_tune_line(argc, argv);
  if (line.kind == CommandLine::Kind::help) {
    std::fputs(line.text.c_str(), stdout);
    return to_int(Exit::success);
  }
  if (line.kind == CommandLine::Kind::refused) {
    std::fprintf(stderr, "softib coll tune: %s\nRun with --help for more information.\n", line.text.c_str());
    return to_int(Exit::invalid_usage);
  }
  if (line.options.run.launches()) return launch(line.options.run, argc, argv);
  return run_here(line.options);
}
