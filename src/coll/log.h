// What the library tells its user: lines like NCCL's, "host:process:thread [rank] SOFTIB INFO text", on standard error
// or in a file. SOFTIB_DEBUG, SOFTIB_DEBUG_SUBSYS and SOFTIB_DEBUG_FILE say what of it; without them only warnings
// come.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace softib::coll {

enum class LogLevel : u8 { none, version, warn, info, trace };

// What a line is about. Bits, as SOFTIB_DEBUG_SUBSYS names any number of them.
enum class Subsystem : u32 {
  init = 1 << 0,       // which way was chosen, and why
  coll = 1 << 1,       // each collective
  p2p = 1 << 2,        // messages between two ranks
  shm = 1 << 3,        // memory of one host
  net = 1 << 4,        // verbs and TCP
  tuning = 1 << 5,     // algorithms and lanes
  env = 1 << 6,        // variables
  alloc = 1 << 7,      // memory
  call = 1 << 8,       // calls of the interface
  bootstrap = 1 << 9,  // how ranks find each other
  reg = 1 << 10,       // registered memory
  all = 0xffff'ffff,
};

struct LogSettings {
  LogLevel level = LogLevel::warn;
  u32 subsystems =
      static_cast<u32>(Subsystem::init) | static_cast<u32>(Subsystem::bootstrap) | static_cast<u32>(Subsystem::env);
  std::string file;  // %h: host, %p: process, %%: %; empty: standard error
};

[[nodiscard]] std::optional<LogLevel> log_level_from_name(std::string_view name);  // "INFO"
[[nodiscard]] std::optional<u32> subsystems_from_names(std::string_view names);    // "INIT,NET", "^COLL"

namespace log {

inline constexpr i32 no_rank = -1;

// For tests and for programs with settings of their own; otherwise the variables are read on first use.
void configure(const LogSettings& settings);

// gethostname(), up to its first dot.
[[nodiscard]] std::string host_name();
[[nodiscard]] std::string expand_file_name(std::string_view pattern);

// "version 0.1.0", once for a process: with VERSION, and from INFO on.
void tell_version();

namespace detail {
// The level in the low byte, subsystems above; `unread` before the first use.
inline constexpr u64 unread = ~u64{0};
extern std::atomic<u64> switches;
u64 read_switches();
void write(LogLevel level, i32 rank, std::string_view text);
}  // namespace detail

[[nodiscard]] inline bool enabled(LogLevel level, Subsystem subsystem = Subsystem::all) {
  u64 switches = detail::switches.load(std::memory_order_relaxed);
  if (switches == detail::unread) switches = detail::read_switches();
  return static_cast<u8>(switches) >= static_cast<u8>(level) && (switches >> 8 & static_cast<u32>(subsystem)) != 0;
}

template <typename... T>
void warn(i32 rank, fmt::format_string<T...> format, T&&... values) {
  if (enabled(LogLevel::warn)) detail::write(LogLevel::warn, rank, fmt::format(format, std::forward<T>(values)...));
}

template <typename... T>
void info(i32 rank, Subsystem subsystem, fmt::format_string<T...> format, T&&... values) {
  if (enabled(LogLevel::info, subsystem))
    detail::write(LogLevel::info, rank, fmt::format(format, std::forward<T>(values)...));
}

template <typename... T>
void trace(i32 rank, Subsystem subsystem, fmt::format_string<T...> format, T&&... values) {
  if (enabled(LogLevel::trace, subsystem))
    detail::write(LogLevel::trace, rank, fmt::format(format, std::forward<T>(values)...));
}

}  // namespace log

}  // namespace softib::coll
