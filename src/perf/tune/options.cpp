#include "perf/tune/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "perf/tune/choices.h"

namespace softib::perf::tune {

namespace {

constexpr const char* tune_footer =
    "Ranks are started here (-np), on hosts (--hosts), or by mpirun, as those of all_reduce_perf are. Each way of "
    "doing\n"
    "each collective is timed at each size, in several passes; the file that is written holds the best one where it "
    "beats\n"
    "what the library would choose by itself. Use it by SOFTIB_TUNING_FILE=FILE.\n"
    "\n"
    "Exit codes: 0 good, 1 FILE can't be written, 3 the library failed or --check's file is faulty, 6 wrong usage,\n"
    "7 --check found what is slower than it should be.\n"
    "\n"
    "Examples:\n"
    "  softib coll tune -np 4 -o tuning\n"
    "  softib coll tune --hosts host0:2,host1:2 --collectives all_reduce,all_gather -o tuning\n"
    "  softib coll tune -np 4 --check tuning";

void add_size(CLI::App& app, const char* names, u64& value, const char* what) {
  app.add_option_function<std::string>(
         names,
         [&value, names](const std::string& text) {
           const auto size = parse_size(text);
           if (!size || *size == 0)
             throw CLI::ValidationError(names, fmt::format("'{}' is no size, as 8 or 64K", text));
           value = *size;
         },
         what)
      ->type_name("SIZE");
}

void add_options(CLI::App& app, TuneOptions& options, bool& ordinary) {
  Options& run = options.run;
  app.add_option("--np", run.processes, "Start so many ranks here, or on --hosts (also: -np N)")
      ->check(CLI::Range(1U, 65536U))
      ->type_name("N");
  app.add_option("--hosts", run.hosts, "Start them on these hosts, by default one on each")
      ->check(names_hosts, "")
      ->type_name("HOST[:N],...");
  app.add_option("--agent", run.agent, "What runs a command on a host, as 'ssh -x' (default: softib ssh)")
      ->type_name("COMMAND");
  add_size(app, "-b,--minbytes", run.min_bytes, "First size (8)");
  add_size(app, "-e,--maxbytes", run.max_bytes, "Last size (16M)");
  app.add_option("-f,--stepfactor", run.step_factor, "From one size to the next: so many times as much (4)")
      ->check(CLI::Range(u64{2}, u64{1} << 20))
      ->type_name("N");
  app.add_option("--collectives", options.collectives, "Only these, as all_reduce,broadcast")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--seconds", options.seconds, "How long it may take, more or less (60)")
      ->check(CLI::Range(0.1, 86400.0))
      ->type_name("N");
  app.add_option("-o,--output", options.output, "Where the tuning file goes (standard output)")->type_name("FILE");
  app.add_option("--check", options.check, "Compare this tuning file with what is measured now, and write none")
      ->type_name("FILE");
  app.add_option("--tolerance", options.tolerance, "... and so many percent slower than the best is still good (25)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("PERCENT");
  app.add_flag("--ordinary", ordinary, "Buffers of ordinary memory, not that which peers on the host can reach");
}

std::string complaint(const TuneOptions& options) {
  if (options.run.min_bytes > options.run.max_bytes) return "the first size is larger than the last one";
  if (!options.check.empty() && !options.output.empty()) return "--check writes no file: -o can't be";
  if (!options.run.agent.empty() && options.run.hosts.empty()) return "--agent is for --hosts";
  for (const std::string& name : options.collectives)
    if (benchmark_of(name) == nullptr) return fmt::format("'{}' is no collective that can be tuned", name);
  return {};
}

}  // namespace

TuneLine parse_tune_line(int argc, const char* const* argv) {
  TuneLine line;
  line.options.run.min_bytes = 8;
  line.options.run.max_bytes = u64{16} << 20;
  line.options.run.step_factor = 4;
  line.options.run.checks = 0;
  line.options.run.average = Average::most;
  bool ordinary = false;
  CLI::App app("Measures how collectives are done best here, and writes it down for the library.", "softib coll tune");
  app.footer(tune_footer);
  add_options(app, line.options, ordinary);
  line.kind = parse_words(app, argc, argv, line.text);
  if (line.kind != CommandLine::Kind::run) return line;
  if (ordinary) line.options.run.memory = Memory::ordinary;
  std::vector<std::string>& names = line.options.collectives;
  for (auto name = names.begin(); name != names.end();)
    name = std::find(names.begin(), name, *name) == name ? name + 1 : names.erase(name);
  if (names.empty()) names = tunable_collectives();
  line.text = complaint(line.options);
  if (!line.text.empty()) line.kind = CommandLine::Kind::refused;
  return line;
}

}  // namespace softib::perf::tune
