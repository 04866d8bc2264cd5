#include "perf/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

namespace softib::perf {

namespace {

constexpr const char* footer =
    "Sizes take K, M and G, of 1024. Options, output and exit codes are those of nccl-tests.\n"
    "\n"
    "Ranks are started by this program (-np, --hosts), by mpirun of Open MPI or MPICH, by srun, by 'softib run' on\n"
    "several hosts, or one by one with\n"
    "SOFTIB_COMM_ID=ADDRESS:PORT (of rank 0), RANK and WORLD_SIZE set. Without any of them there is one process.\n"
    "\n"
    "Environment (NCCL_TESTS_... is read where SOFTIB_TESTS_... isn't set):\n"
    "  SOFTIB_TESTS_MIN_BW                     exit code 7 if the average bus bandwidth is below 0.9 of it (GB/s)\n"
    "  SOFTIB_TESTS_SPLIT, ..._SPLIT_MASK      groups of ranks that run side by side: \"MOD 2\", \"DIV 4\", \"AND "
    "0x3\"\n"
    "  SOFTIB_TESTS_ALLTOALLV_SPREAD           0: to all ranks the same, 1: more to more distant ones (default)\n"
    "  SOFTIB_TESTS_ALLTOALLV_MATRIX_FILE      who sends how many bytes to whom; ..._MATRIX_SCALE multiplies them\n"
    "  SOFTIB_TESTS_ALLTOALLV_PRINT_SUMMARY=1  bandwidths by rank\n"
    "\n"
    "Exit codes: 0 good, 1 no memory or no process, 3 the library failed, 4 time-out, 6 wrong usage, 7 wrong values "
    "or\n"
    "too slow, 255 no session on a host of --hosts.\n"
    "\n"
    "Examples:\n"
    "  all_reduce_perf -b 8 -e 128M -f 2 -np 2\n"
    "  all_reduce_perf -b 8 -e 128M -f 2 --hosts host0,host1\n"
    "  mpirun -np 2 -H host0,host1 all_reduce_perf -b 8 -e 128M -f 2\n"
    "  all_reduce_perf -d all -o all -b 1K -e 1K -t 4\n"
    "\n"
    "See docs/collectives.md.";

// What means nothing on processors: taken where it asks for nothing.
struct Absent {
  std::string streams, graphs, cta_policy, device, device_ctas;
};

void add_size(CLI::App& app, const char* names, u64& value, const char* what) {
  app.add_option_function<std::string>(
         names,
         [&value, names](const std::string& text) {
           const auto size = parse_size(text);
           if (!size) throw CLI::ValidationError(names, fmt::format("'{}' is not a size, as 8, 64K or 1G", text));
           value = *size;
         },
         what)
      ->type_name("SIZE");
}

template <typename T>
void add_number(CLI::App& app, const char* names, T& value, T least, T most, const char* what) {
  app.add_option(names, value, what)->check(CLI::Range(least, most))->type_name("N")->capture_default_str();
}

template <typename T>
void add_choice(CLI::App& app, const char* names, T& value, u32 most, const char* what) {
  app.add_option_function<u32>(
         names, [&value](u32 number) { value = static_cast<T>(number); }, what)
      ->check(CLI::Range(0U, most))
      ->type_name("N");
}

template <typename T, typename FromName>
void add_name(CLI::App& app, const char* names, std::optional<T>& value, FromName from_name, const char* what) {
  app.add_option_function<std::string>(
         names,
         [&value, names, from_name, what](const std::string& text) {
           value = from_name(text);
           if (!value && text != "all")
             throw CLI::ValidationError(names, fmt::format("there is no '{}'; there are {}", text, what));
         },
         what)
      ->type_name("NAME");
}

constexpr u32 any_number = 1U << 30;

void add_sweep(CLI::App& app, Options& options) {
  add_size(app, "-b,--minbytes", options.min_bytes, "First size (32M)");
  add_size(app, "-e,--maxbytes", options.max_bytes, "Last size (32M)");
  add_size(app, "-i,--stepbytes", options.step_bytes, "From one size to the next: this much more (1M)");
  add_number<u64>(app, "-f,--stepfactor", options.step_factor, 0, any_number, "... or so many times as much");
  add_name(app, "-o,--op", options.op, coll::op_from_name, "sum prod max min avg mulsum all");
  add_name(app, "-d,--datatype", options.type, coll::type_from_name,
           "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all");
  add_number<i32>(app, "-r,--root", options.root, -1, 1 << 30, "Root of what has one; -1: all ranks in turn");
  add_number<u32>(app, "-u,--unalign", options.unaligned, 0, 1 << 20, "Buffers begin so many elements off");
}

void add_timing(CLI::App& app, Options& options) {
  add_number<u32>(app, "-n,--iters", options.iterations, 1, any_number, "Operations that are timed");
  add_number<u32>(app, "-m,--agg_iters", options.aggregated, 1, any_number, "... each of so many, under way at once");
  add_number<u32>(app, "-w,--warmup_iters", options.warm_up, 0, any_number, "Operations before");
  add_number<u32>(app, "-N,--run_cycles", options.cycles, 0, any_number, "All sizes so many times; 0: for ever");
  add_choice(app, "-a,--average", options.average, 3, "Time of rank 0 (0), average (1), least (2), most (3) of all");
  add_choice(app, "-z,--blocking", options.blocking, 3,
             "Barrier after each operation (1), none (0, 2), or after each -n, not timed (3)");
  add_choice(app, "-C,--report_cputime", options.cpu_time, 1, "Processor time instead of time");
  add_choice(app, "-S,--report_timestamps", options.timestamps, 1, "Time of day behind each row");
  add_choice(app, "-I,--per_iter_timing", options.per_iteration, 1,
             "Each operation timed: columns, and all in the JSON");
  add_number<u32>(app, "-K,--per_iter_skip", options.skipped, 0, any_number, "... without the first so many");
  add_number<u32>(app, "-T,--timeout", options.timeout, 0, any_number, "Seconds that an operation may stand still");
}

void add_rest(CLI::App& app, Options& options, u32& registration, bool& ordinary) {
  add_number<u32>(app, "-t,--nthreads", options.threads, 1, 1024, "Ranks in each process, as threads");
  add_number<u32>(app, "-g,--ngpus", options.per_thread, 1, 1024, "Multiplies them");
  add_number<u32>(app, "-c,--check", options.checks, 0, any_number, "Checks of all values at each size");
  add_choice(app, "-p,--parallel_init", options.parallel_init, 1, "Threads connect at once, as they always do");
  add_choice(app, "-M,--memory", options.memory_report, 1, "Report the memory in use");
  app.add_option("-R,--local_register", registration,
                 "Buffers are always registered, unless they are --ordinary: nothing to choose")
      ->check(CLI::Range(0U, 2U))
      ->type_name("N");
  app.add_flag("--ordinary", ordinary, "Buffers of ordinary memory, not that which peers on the host can reach");
  app.add_option("-J,--output_file", options.json_file, "Results as JSON; if the file is there, FILE.0, FILE.1 ...")
      ->type_name("FILE.json");
  app.add_option("--plot", options.plot_file, "Bus bandwidth over size, as a drawing")->type_name("FILE.svg");
  app.add_option("--np", options.processes, "Start so many processes here, or on --hosts (also: -np N)")
      ->check(CLI::Range(1U, 65536U))
      ->type_name("N");
  app.add_option("--hosts", options.hosts, "Start them on these hosts, by default one on each")
      ->check(names_hosts, "")
      ->type_name("HOST[:SLOTS],...");
  app.add_option("--agent", options.agent,
                 "What runs a command on a host, given HOST and COMMAND, as 'ssh -x' (default: softib ssh)")
      ->type_name("COMMAND");
  app.add_option_function<std::string>(
         "--bind-to",
         [&options](const std::string& text) { options.binding = text == "none" ? Binding::none : Binding::core; },
         "core: each rank gets a processor of its own, if this machine has enough (the default); none")
      ->check(CLI::IsMember({"core", "none"}))
      ->type_name("core|none");
}

void add_absent(CLI::App& app, Absent& absent) {
  app.add_option("-y,--stream_null", absent.streams, "No effect: there are no streams")->type_name("N");
  app.add_option("-G,--cudagraph", absent.graphs, "0: there are no graphs")->type_name("N");
  app.add_option("-x,--cta_policy", absent.cta_policy, "No effect: there are no CTAs")->type_name("N");
  app.add_option("-D,--device_implementation", absent.device, "0: there are no device kernels")->type_name("N");
  app.add_option("-V,--device_cta_count", absent.device_ctas, "No effect")->type_name("N");
}

bool asks_for_nothing(const std::string& text) { return text.empty() || text == "0"; }

bool ends_in(const std::string& text, std::string_view ending) {
  return text.size() > ending.size() && text.ends_with(ending);
}

// Why the options can't be; empty where they can.
std::string complaint(const Options& options, const Absent& absent, u32 registration) {
  if (options.min_bytes > options.max_bytes)
    return fmt::format("invalid sizes for 'minbytes' and 'maxbytes': {} > {}", options.min_bytes, options.max_bytes);
  if (options.min_bytes == 0) return "minbytes (-b) must be 1 at least";
  if (options.step_factor <= 1 && options.step_bytes == 0) return "stepbytes (-i) must be 1 at least";
  if (!asks_for_nothing(absent.graphs)) return "-G: there are no CUDA graphs on processors";
  if (!asks_for_nothing(absent.device)) return "-D: there are no device kernels on processors";
  if (options.memory == Memory::ordinary && registration != 0) return "--ordinary memory isn't registered (-R)";
  if (!options.json_file.empty() && !ends_in(options.json_file, ".json")) return "-J: only .json files are written";
  if (!options.plot_file.empty() && !ends_in(options.plot_file, ".svg")) return "--plot: only .svg files are drawn";
  if (!options.agent.empty() && options.hosts.empty()) return "--agent is for --hosts";
  return {};
}

void set_right(CommandLine& line) {
  Options& options = line.options;
  if (options.skipped >= options.iterations) {
    line.notes += fmt::format("per-iteration skip (-K) must be between 0 and {}. Disabling.\n", options.iterations - 1);
    options.skipped = 0;
  }
  if (options.skipped != 0 && !options.per_iteration) {
    line.notes += "per-iteration skip (-K) requires per-iteration timing (-I 1). Disabling.\n";
    options.skipped = 0;
  }
}

// CLI11 takes "-np 2" for "-n p", and wants the last word first.
std::vector<std::string> reversed_words(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {
    const std::string_view word(argv[i]);
    words.emplace_back((word == "-np" || word.starts_with("-np=") ? "-" : "") + std::string(word));
  }
  return words;
}

}  // namespace

CommandLine::Kind parse_words(CLI::App& app, int argc, const char* const* argv, std::string& text) {
  try {
    app.parse(reversed_words(argc, argv));
    return CommandLine::Kind::run;
  } catch (const CLI::ParseError& error) {
    const bool asked_for = error.get_exit_code() == 0;
    text = asked_for ? app.help() : error.what();
    return asked_for ? CommandLine::Kind::help : CommandLine::Kind::refused;
  }
}

std::string names_hosts(const std::string& hosts) {
  return hosts.empty() ? "it names no host, as host0 or host0:2" : "";
}

std::optional<u64> parse_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view unit(end);
  if (unit.size() > 1) return std::nullopt;
  u64 factor = 1;
  if (unit == "K" || unit == "k") factor = u64{1} << 10;
  if (unit == "M" || unit == "m") factor = u64{1} << 20;
  if (unit == "G" || unit == "g") factor = u64{1} << 30;
  if (!unit.empty() && factor == 1) return std::nullopt;
  const double bytes = number * static_cast<double>(factor);
  if (bytes >= 0x1p62) return std::nullopt;
  return static_cast<u64>(bytes);
}

CommandLine parse_command_line(const std::string& program, int argc, const char* const* argv) {
  CommandLine line;
  Absent absent;
  u32 registration = 0;
  bool ordinary = false;
  CLI::App app("Times a collective between processes, and checks its results.", program);
  app.footer(footer);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as getopt has it
  add_sweep(app, line.options);
  add_timing(app, line.options);
  add_rest(app, line.options, registration, ordinary);
  add_absent(app, absent);
  line.kind = parse_words(app, argc, argv, line.text);
  if (line.kind != CommandLine::Kind::run) return line;
  if (ordinary) line.options.memory = Memory::ordinary;
  line.text = complaint(line.options, absent, registration);
  if (!line.text.empty()) line.kind = CommandLine::Kind::refused;
  set_right(line);
  return line;
}

}  // namespace softib::perf
