#include "coll/log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>

#include "base/fd.h"
#include "coll/environment.h"
#include "coll/softib_coll.h"

namespace softib::coll {

namespace {

template <typename T>
struct Named {
  std::string_view name;
  T value;
};
constexpr std::array<Named<LogLevel>, 5> level_names{{{"NONE", LogLevel::none},
                                                      {"VERSION", LogLevel::version},
                                                      {"WARN", LogLevel::warn},
                                                      {"INFO", LogLevel::info},
                                                      {"TRACE", LogLevel::trace}}};

constexpr std::array<Named<Subsystem>, 12> subsystem_names{{{"INIT", Subsystem::init},
                                                            {"COLL", Subsystem::coll},
                                                            {"P2P", Subsystem::p2p},
                                                            {"SHM", Subsystem::shm},
                                                            {"NET", Subsystem::net},
                                                            {"TUNING", Subsystem::tuning},
                                                            {"ENV", Subsystem::env},
                                                            {"ALLOC", Subsystem::alloc},
                                                            {"CALL", Subsystem::call},
                                                            {"BOOTSTRAP", Subsystem::bootstrap},
                                                            {"REG", Subsystem::reg},
                                                            {"ALL", Subsystem::all}}};

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

template <typename T, std::size_t count>
std::optional<T> value_in(const std::array<Named<T>, count>& table, std::string_view name) {
  for (const Named<T>& row : table)
    if (same_word(row.name, name)) return row.value;
  return std::nullopt;
}

// Where lines go. No lock: a process may be forked while a thread of the library's writes, and the child would find it
// taken for ever. So a file that was written to is never closed: somebody may be about to write.
std::atomic<int> output_file{STDERR_FILENO};

}  // namespace

std::optional<LogLevel> log_level_from_name(std::string_view name) { return value_in(level_names, name); }

std::optional<u32> subsystems_from_names(std::string_view names) {
  const bool all_but = names.starts_with('^');
  if (all_but) names.remove_prefix(1);
  u32 named = 0;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(','), names.size());
    const auto subsystem = value_in(subsystem_names, names.substr(0, end));
    if (!subsystem) return std::nullopt;
    named |= static_cast<u32>(*subsystem);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  if (named == 0) return std::nullopt;
  return all_but ? ~named : named;
}

namespace log {

namespace detail {

std::atomic<u64> switches{unread};

u64 read_switches() {
  configure(Environment::parse(Environment::look_up).log);
  return switches.load(std::memory_order_relaxed);
}

// One call for one line: lines of several processes don't mix.
void write(LogLevel level, i32 rank, std::string_view text) {
  const auto row = std::find_if(level_names.begin(), level_names.end(), [&](auto& r) { return r.value == level; });
  const std::string who = rank == no_rank ? "" : fmt::format(" [{}]", rank);
  const std::string line =
      fmt::format("{}:{}:{}{} SOFTIB {} {}\n", host_name(), ::getpid(), ::syscall(SYS_gettid), who, row->name, text);
  // Nobody could be told of a failure.
  [[maybe_unused]] const auto written = ::write(output_file.load(), line.data(), line.size());
}

}  // namespace detail

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == 0) return "localhost";
  const std::string_view whole(name.data());
  return std::string(whole.substr(0, whole.find('.')));
}

std::string expand_file_name(std::string_view pattern) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') name += host_name();
    if (next == 'p') name += fmt::format("{}", ::getpid());
    if (next == '%') name += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++i;
    } else {
      name += pattern[i];
    }
  }
  return name;
}

void tell_version() {
  static std::atomic<bool> told{false};
  const bool wanted =
      enabled(LogLevel::version) && (!enabled(LogLevel::warn) || enabled(LogLevel::info, Subsystem::init));
  if (wanted && !told.exchange(true))
    detail::write(LogLevel::version, no_rank,
                  fmt::format("{}.{}.{}", SOFTIB_COLL_MAJOR, SOFTIB_COLL_MINOR, SOFTIB_COLL_PATCH));
}

void configure(const LogSettings& settings) {
  Fd file;
  if (!settings.file.empty() && settings.level > LogLevel::version)
    file.reset(::open(expand_file_name(settings.file).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const bool missing = !settings.file.empty() && settings.level > LogLevel::version && !file;
  output_file.store(file ? file.release() : STDERR_FILENO);
  detail::switches.store(static_cast<u64>(settings.level) | u64{settings.subsystems} << 8, std::memory_order_relaxed);
  if (missing) warn(no_rank, "SOFTIB_DEBUG_FILE={} can't be opened; standard error is used", settings.file);
}

}  // namespace log

}  // namespace softib::coll
