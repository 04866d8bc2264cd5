#include "perf/program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/processors.h"
#include "perf/collective.h"
#include "perf/launch/launcher.h"
#include "perf/launch/plan.h"
#include "perf/launch/variables.h"
#include "perf/processor.h"
#include "perf/rank.h"

namespace softib::perf {

namespace {

// Two ranks that the system puts on one processor wait for each other's turns.
Exit run_ranks(const Run& run, bool own_processors) {
  std::vector<Exit> codes(run.options.ranks_here(), Exit::success);
  const auto processors = processors_of_ranks(run.options, own_processors, allowed_processors());
  const auto run_thread = [&](u32 thread) {
    if (!processors.empty()) stay_on(processors[thread]);
    codes[thread] = run_rank(run, thread);
  };
  std::vector<std::thread> threads;
  for (u32 thread = 1; thread < codes.size(); ++thread) threads.emplace_back(run_thread, thread);
  run_thread(0);
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

int run_here(Run& run) {
  const bool launched = std::getenv(variables::process) != nullptr;
  const char* processors = std::getenv(variables::processors);
  if (launched) end_with_launcher();
  if (processors != nullptr) stay_on(processors);
  auto meeting = join_meeting();
  if (!meeting) {
    std::fprintf(stderr, "%s: %s\n", run.program.c_str(), meeting.error().text.c_str());
    const bool usage = meeting.error().code == coll::Code::invalid_usage;
    return to_int(usage ? Exit::invalid_usage : Exit::library_error);
  }
  run.meeting = *meeting;
  if (!launched && run.ranks() == 1)
    std::fprintf(stderr, "%s: one rank alone; -np N, --hosts HOST,... or -t N starts more\n", run.program.c_str());
  const bool alone = !launched && run.meeting.processes == 1;
  return to_int(run_ranks(run, processors != nullptr || alone));
}

}  // namespace

int run_program(const Collective& collective, const char* name, int argc, const char* const* argv) {
  const CommandLine line = parse_command_line(name, argc, argv);
  if (line.kind == CommandLine::Kind::help) {
    std::fputs(line.text.c_str(), stdout);
    return to_int(Exit::success);
  }
  if (line.kind == CommandLine::Kind::refused) {
    std::fprintf(stderr, "%s: %s\nRun with --help for more information.\n", name, line.text.c_str());
    return to_int(Exit::invalid_usage);
  }
  std::fputs(line.notes.c_str(), stderr);
  if (line.options.launches()) return launch(line.options, argc, argv);
  Run run{name, {argv, argv + argc}, line.options, {}, &collective};
  return run_here(run);
}

int run_program(const char* collective, int argc, const char* const* argv) {
  const std::string name = std::string(collective) + "_perf";
  return run_program(*make_collective(collective), name.c_str(), argc, argv);
}

}  // namespace softib::perf
