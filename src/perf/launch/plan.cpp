#include "perf/launch/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

namespace softib::perf {

namespace {

using coll::Code;
using coll::Outcome;

struct HostSlots {
  std::string host;
  u32 slots = 1;
};

Outcome<HostSlots> parse_host(std::string_view text) {
  const auto colon = text.rfind(':');
  HostSlots host{std::string(text.substr(0, colon)), 1};
  bool good = !host.host.empty() && host.host.front() != '-';
  if (good && colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), host.slots);
    good = error == std::errc{} && end == digits.end() && host.slots > 0 && host.slots <= 65536;
  }
  if (!good)
    return coll::refuse(Code::invalid_argument, fmt::format("--hosts: '{}' is no host, as host0 or host0:2", text));
  return host;
}

// Not SOFTIB_HOSTID, which tells hosts apart, nor SOFTIB_COMM_ID, as the launcher says where to meet, nor what says
// which host of which fabric a process is on.
constexpr std::array<std::string_view, 11> shared_beginnings{
    "SOFTIB_TESTS_",  "NCCL_TESTS_", "SOFTIB_SOCKET_", "SOFTIB_IB_",    "SOFTIB_DEBUG",  "SOFTIB_ALGO",
    "SOFTIB_TIMEOUT", "SOFTIB_TUN",  "SOFTIB_SHM",     "SOFTIB_CHECKS", "SOFTIB_COLLNET"};

constexpr std::array<std::string_view, 5> launcher_options{"-np", "--np", "--hosts", "--agent", "--bind-to"};

}  // namespace

Outcome<std::vector<Slot>> plan_slots(const Options& options) {
  if (options.hosts.empty()) return std::vector<Slot>(options.processes);
  std::vector<Slot> slots;
  std::istringstream list(options.hosts);
  for (std::string text; std::getline(list, text, ',');) {
    const auto host = parse_host(text);
    if (!host) return tl::unexpected(host.error());
    slots.insert(slots.end(), host->slots, Slot{host->host});
  }
  if (options.processes > slots.size())
    return coll::refuse(Code::invalid_argument,
                        fmt::format("-np {}: --hosts has {} places; host0:2 is two", options.processes, slots.size()));
  if (options.processes != 0) slots.resize(options.processes);
  return slots;
}

std::string shell_word(std::string_view word) {
  std::string text = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      text += "'\\''";
    } else {
      text += letter;
    }
  }
  return text + "'";
}

std::vector<std::string> words_for(const Slot& slot, const std::string& agent, const Command& command) {
  std::vector<std::string> words;
  if (slot.host.empty()) {
    words.push_back(command.program);
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    return words;
  }
  std::istringstream parts(agent);
  for (std::string part; parts >> part;) words.push_back(part);
  words.push_back(slot.host);
  std::string line = fmt::format("cd {} && exec env", shell_word(command.folder));
  for (const auto& [name, value] : command.variables) line += " " + shell_word(fmt::format("{}={}", name, value));
  line += " " + shell_word(command.program);
  for (const std::string& argument : command.arguments) line += " " + shell_word(argument);
  words.push_back(line);
  return words;
}

std::vector<std::string> processors_for(const Options& options, std::size_t processes, std::span<const u32> allowed) {
  const std::size_t each = options.ranks_here();
  if (options.binding == Binding::none || !options.agent.empty() || processes * each > allowed.size()) return {};
  std::vector<std::string> lists;
  for (std::size_t process = 0; process < processes; ++process)
    lists.push_back(fmt::format("{}", fmt::join(allowed.subspan(process * each, each), ",")));
  return lists;
}

std::vector<std::string> processors_of_ranks(const Options& options, bool own, std::span<const u32> allowed) {
  const std::size_t ranks = options.ranks_here();
  if (options.binding == Binding::none || !own || ranks == 1 || ranks > allowed.size()) return {};
  std::vector<std::string> processors;
  for (const u32 processor : allowed.first(ranks)) processors.push_back(std::to_string(processor));
  return processors;
}

std::map<std::string, std::string> shared_variables(const char* const* environment) {
  std::map<std::string, std::string> variables;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const auto begins = [&](std::string_view beginning) { return entry.starts_with(beginning); };
    if (std::any_of(shared_beginnings.begin(), shared_beginnings.end(), begins))
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

std::vector<std::string> arguments_of_rank(int argc, const char* const* argv) {
  std::vector<std::string> kept;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    const auto names = [&](std::string_view option) {
      return word == option || (word.starts_with(option) && word.substr(option.size()).starts_with('='));
    };
    const auto* found = std::find_if(launcher_options.begin(), launcher_options.end(), names);
    if (found == launcher_options.end()) {
      kept.emplace_back(word);
    } else if (word == *found) {
      ++i;  // its value
    }
  }
  return kept;
}

}  // namespace softib::perf
