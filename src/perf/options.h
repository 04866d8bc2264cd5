// The command line: that of nccl-tests, where it means something for processors, and what starts ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coll/types.h"

namespace CLI {
class App;
}

namespace softib::perf {

// -z: who waits for whom. A rank always waits for its own operation before it starts the next one on the same buffers.
enum class Blocking : u8 { none = 0, barrier_each = 1, wait_each = 2, barrier_outer = 3 };
// -a: of which ranks' times the time in the table is made.
enum class Average : u8 { rank0 = 0, mean = 1, least = 2, most = 3 };
// What buffers are made of: what Communicator::allocate gives, or any memory of the process.
enum class Memory : u8 { reachable, ordinary };
// --bind-to: whether the launcher gives each rank a processor of its own, if there are enough.
enum class Binding : u8 { core, none };

struct Options {
  // -t and -g of one process; each is a rank, and a thread of its own.
  u32 threads = 1;
  u32 per_thread = 1;
  u64 min_bytes = u64{32} << 20;
  u64 max_bytes = u64{32} << 20;
  u64 step_bytes = u64{1} << 20;
  u64 step_factor = 1;  // from 2 on it counts, and step_bytes doesn't
  u32 iterations = 20;
  u32 aggregated = 1;
  u32 warm_up = 1;
  u32 cycles = 1;  // 0: without end
  u32 checks = 1;
  std::optional<coll::Op> op = coll::Op::sum;                    // empty: all
  std::optional<coll::DataType> type = coll::DataType::float32;  // empty: all
  i32 root = 0;                                                  // -1: all, one after another
  Blocking blocking = Blocking::none;
  Average average = Average::mean;
  u32 timeout = 0;  // seconds; 0: as the communicator has it
  bool parallel_init = false;
  bool cpu_time = false;
  bool timestamps = false;
  bool memory_report = false;
  bool per_iteration = false;
  u32 skipped = 0;    // leading iterations that the summary of per_iteration leaves out
  u32 unaligned = 0;  // elements
  Memory memory = Memory::reachable;
  std::string json_file;
  std::string plot_file;

  // Of this program as a launcher.
  u32 processes = 0;  // 0: not said
  std::string hosts;
  std::string agent;
  Binding binding = Binding::core;

  [[nodiscard]] u32 ranks_here() const { return threads * per_thread; }
  [[nodiscard]] bool launches() const { return processes != 0 || !hosts.empty(); }
  [[nodiscard]] u64 next_size(u64 bytes) const { return step_factor > 1 ? bytes * step_factor : bytes + step_bytes; }
};

struct CommandLine {
  enum class Kind : u8 { run, help, refused } kind = Kind::run;
  Options options;
  std::string text;   // help, or why it is refused
  std::string notes;  // what was set right, as nccl-tests does it: a line each
};

[[nodiscard]] CommandLine parse_command_line(const std::string& program, int argc, const char* const* argv);

// The words behind the program's name into the app's options. What isn't to be run: help, or a refusal, with its text.
[[nodiscard]] CommandLine::Kind parse_words(CLI::App& app, int argc, const char* const* argv, std::string& text);

// What is wrong with the word of --hosts before it is taken apart. A script's empty variable shall not mean one rank
// here.
[[nodiscard]] std::string names_hosts(const std::string& hosts);

// "32M", "1g", "4.5K", "8": bytes, in units of 1024; empty where it is no size.
[[nodiscard]] std::optional<u64> parse_size(const std::string& text);

}  // namespace softib::perf
