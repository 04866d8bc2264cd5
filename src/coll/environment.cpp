#include "coll/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <tl/expected.hpp>

#include "base/edit_distance.h"

namespace softib::coll {

namespace {

std::vector<std::string_view> split_list(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    if (end != 0 && !text.empty()) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool take_prefix(std::string_view& text, char prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(1);
  return true;
}

template <typename T>
std::optional<T> whole_number(std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
  return value;
}

template <auto field, u32 most>
bool set_number(std::string_view value, Environment& environment) {
  const auto number = whole_number<u32>(value, 0, most);
  if (number) environment.*field = static_cast<std::remove_reference_t<decltype(environment.*field)>>(*number);
  return number.has_value();
}

template <auto field>
bool set_switch(std::string_view value, Environment& environment) {
  if (value == "0" || value == "1") environment.*field = value == "1";
  return value == "0" || value == "1";
}

template <auto field>
bool set_filter(std::string_view value, Environment& environment) {
  auto filter = NameFilter::parse(value);
  if (filter) environment.*field = std::move(*filter);
  return filter.has_value();
}

template <auto field>
bool set_text(std::string_view value, Environment& environment) {
  environment.*field = value;
  return true;
}

bool set_family(std::string_view value, Environment& environment) {
  if (value == "AF_INET") environment.socket_family = SocketFamily::ipv4;
  if (value == "AF_INET6") environment.socket_family = SocketFamily::ipv6;
  return environment.socket_family != SocketFamily::any;
}

bool set_comm_id(std::string_view value, Environment& environment) {
  const std::size_t colon = value.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view name = value.substr(0, colon);
  const bool in_brackets = name.starts_with('[') && name.ends_with(']') && name.size() > 2;
  if (!in_brackets && name.find_first_of(":[]") != std::string_view::npos) return false;
  if (!whole_number<u32>(value.substr(colon + 1), 1, 65535)) return false;
  environment.comm_id = value;
  return true;
}

bool set_debug(std::string_view value, Environment& environment) {
  const auto level = log_level_from_name(value);
  if (level) environment.log.level = *level;
  return level.has_value();
}

bool set_debug_subsystems(std::string_view value, Environment& environment) {
  const auto subsystems = subsystems_from_names(value);
  if (subsystems) environment.log.subsystems = *subsystems;
  return subsystems.has_value();
}

bool set_debug_file(std::string_view value, Environment& environment) {
  environment.log.file = value;
  return !value.empty();
}

// -1 chooses, as NCCL has it.
bool set_gid_index(std::string_view value, Environment& environment) {
  const auto number = whole_number<i32>(value, -1, 255);
  if (number && *number >= 0) environment.ib_gid_index = static_cast<u32>(*number);
  return number.has_value();
}

bool set_timeout(std::string_view value, Environment& environment) {
  constexpr double most = 1e9;  // thirty years; no overflow of nanoseconds
  double seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error != std::errc{} || end != value.data() + value.size() || !(seconds > 0 && seconds <= most)) return false;
  environment.timeout =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(std::max(seconds, 1e-3)));
  return true;
}

tl::expected<AlgorithmRule, std::string> algorithm_rule(std::string_view text) {
  AlgorithmRule rule;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view name = text.substr(0, colon);
    rule.collective = collective_from_name(name);
    if (!rule.collective) return tl::unexpected(fmt::format("no collective is called '{}'", name));
    text.remove_prefix(colon + 1);
  }
  rule.all_but = take_prefix(text, '^');
  for (std::string_view name : split_list(text, ',')) {
    const std::vector<Algorithm> named = algorithms_from_name(name);
    if (named.empty()) return tl::unexpected(fmt::format("no algorithm is called '{}'", name));
    const std::size_t before = rule.algorithms.size();
    for (const Algorithm algorithm : named)
      if (!rule.collective || find_algorithm(*rule.collective, algorithm) != nullptr)
        rule.algorithms.push_back(algorithm);
    if (rule.algorithms.size() == before)
      return tl::unexpected(fmt::format("{} isn't done by {}, but by {}", name_of(*rule.collective), name,
                                        algorithm_names_for(*rule.collective)));
  }
  if (rule.algorithms.empty()) return tl::unexpected(std::string("it names no algorithm"));
  return rule;
}

tl::expected<std::vector<AlgorithmRule>, std::string> algorithm_rules(std::string_view value) {
  std::vector<AlgorithmRule> rules;
  for (std::string_view part : split_list(value, ';')) {
    auto rule = algorithm_rule(part);
    if (!rule) return tl::unexpected(rule.error());
    rules.push_back(std::move(*rule));
  }
  if (rules.empty()) return tl::unexpected(std::string("it names no algorithm"));
  return rules;
}

bool set_algorithms(std::string_view value, Environment& environment) {
  auto rules = algorithm_rules(value);
  if (rules) environment.algo = std::move(*rules);
  return rules.has_value();
}

std::string fault_of_algorithms(std::string_view value) {
  const auto rules = algorithm_rules(value);
  return rules ? std::string() : rules.error();
}

using E = Environment;

constexpr const char* names_allowed =
    "a list of beginnings of names (\"eth,ib\"), \"=\" and names (\"=eth0\"), or \"^\" and those to leave out "
    "(\"^docker,lo\")";

constexpr Variable variable_table[]{
    {"SOFTIB_SOCKET_IFNAME", names_allowed, set_filter<&E::socket_ifname>},
    {"SOFTIB_SOCKET_FAMILY", "AF_INET or AF_INET6", set_family},
    {"SOFTIB_COMM_ID", "ADDRESS:PORT, [IPV6-ADDRESS]:PORT or NAME:PORT", set_comm_id},
    {"SOFTIB_HOSTID", "any text", set_text<&E::host_id>},
    {"SOFTIB_DEBUG", "NONE, VERSION, WARN, INFO or TRACE", set_debug},
    {"SOFTIB_DEBUG_SUBSYS",
     "a list of INIT, COLL, P2P, SHM, NET, TUNING, ENV, ALLOC, CALL, BOOTSTRAP, REG, ALL, with \"^\" in front to leave "
     "these out",
     set_debug_subsystems},
    {"SOFTIB_DEBUG_FILE", "a file name, with %h for the host and %p for the process", set_debug_file},
    {"SOFTIB_IB_HCA", names_allowed, set_filter<&E::ib_hca>},
    {"SOFTIB_IB_GID_INDEX", "-1 (chosen) to 255", set_gid_index},
    {"SOFTIB_IB_PKEY", "an index, 0 to 65535", set_number<&E::ib_pkey, 65535>},
    {"SOFTIB_IB_SL", "0 to 15", set_number<&E::ib_sl, 15>},
    {"SOFTIB_IB_TC", "0 to 255", set_number<&E::ib_tc, 255>},
    {"SOFTIB_IB_TIMEOUT", "0 to 31", set_number<&E::ib_timeout, 31>},
    {"SOFTIB_IB_RETRY_CNT", "0 to 7", set_number<&E::ib_retry_cnt, 7>},
    {"SOFTIB_IB_DISABLE", "0 or 1", set_switch<&E::ib_disable>},
    {"SOFTIB_IB_READ", "0 or 1", set_switch<&E::ib_read>},
    {"SOFTIB_IB_ODP", "0 or 1", set_switch<&E::ib_odp>},
    {"SOFTIB_IB_MR_CACHE", "0 or 1", set_switch<&E::ib_mr_cache>},
    {"SOFTIB_SHM_DISABLE", "0 or 1", set_switch<&E::shm_disable>},
    {"SOFTIB_COLLNET_ENABLE", "0 or 1", set_switch<&E::collnet_enable>},
    {"SOFTIB_ALGO",
     "algorithms (\"ring,direct\"), those of one collective (\"all_reduce:ring;broadcast:chain\"), or \"^\" and those "
     "to leave out; there are ring, recursive_doubling, halving_doubling, double_tree, direct, one_shot, hierarchical, "
     "bruck, pairwise, recursive_halving, binomial, chain, scatter_all_gather, reduce_scatter_gather, dissemination, "
     "innetwork",
     set_algorithms, fault_of_algorithms},
    {"SOFTIB_TUNING_FILE", "a file name", set_text<&E::tuning_file>},
    {"SOFTIB_TIMEOUT", "seconds, more than 0", set_timeout},
    {"SOFTIB_CHECKS", "0 or 1", set_switch<&E::checks>},
};

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Read once: all variables of a process come from one state of the files.
const std::vector<std::string>& configuration_texts() {
  static const auto& texts = *new std::vector<std::string>([] {
    std::vector<std::string> found;
    if (const char* home = std::getenv("HOME")) found.push_back(file_text(std::string(home) + "/.softib.conf"));
    found.push_back(file_text("/etc/softib.conf"));
    return found;
  }());
  return texts;
}

bool is_first_complaint(const std::string& text) {
  static auto& lock = *new std::mutex;
  static auto& told = *new std::set<std::string>;
  const std::lock_guard guard(lock);
  return told.insert(text).second;
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace

std::optional<NameFilter> NameFilter::parse(std::string_view text) {
  NameFilter filter;
  filter.all_but_ = take_prefix(text, '^');
  filter.exact_ = take_prefix(text, '=');
  for (std::string_view part : split_list(text, ',')) {
    if (filter.exact_) take_prefix(part, '=');
    Entry entry;
    const std::size_t colon = part.find(':');
    if (colon != std::string_view::npos) {
      const auto port = whole_number<u32>(part.substr(colon + 1), 1, 255);
      if (!port) return std::nullopt;
      entry.port = *port;
    }
    entry.name = part.substr(0, colon);
    if (entry.name.empty() || entry.name.find_first_of("^= \t") != std::string::npos) return std::nullopt;
    filter.entries_.push_back(std::move(entry));
  }
  if (filter.entries_.empty()) return std::nullopt;
  return filter;
}

bool NameFilter::fits(const Entry& entry, std::string_view name, u32 port) const {
  if (entry.port != any_port && port != any_port && entry.port != port) return false;
  return exact_ ? name == entry.name : name.starts_with(entry.name);
}

bool NameFilter::matches(std::string_view name, u32 port) const {
  if (entries_.empty()) return true;
  const bool named = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return fits(e, name, port); });
  return named != all_but_;
}

std::size_t NameFilter::place(std::string_view name, u32 port) const {
  if (all_but_) return 0;
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return fits(e, name, port); });
  return static_cast<std::size_t>(at - entries_.begin());
}

std::span<const Variable> variables() { return variable_table; }

std::vector<std::string> misspelt_variables(const char* const* environment) {
  constexpr std::string_view host_of_process = "SOFTIB_HOST";  // another one of SoftIB's, near SOFTIB_HOSTID
  constexpr std::size_t slip = 2;
  std::vector<std::string> complaints;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with("SOFTIB_") || name == host_of_process) continue;
    const auto by_distance = [&](const Variable& a, const Variable& b) {
      return edit_distance(name, a.name) < edit_distance(name, b.name);
    };
    const Variable& nearest = *std::min_element(std::begin(variable_table), std::end(variable_table), by_distance);
    const std::size_t distance = edit_distance(name, nearest.name);
    if (distance > 0 && distance <= slip)
      complaints.push_back(fmt::format("{} is no variable; did you mean {}?", name, nearest.name));
  }
  return complaints;
}

Environment Environment::parse(const Lookup& lookup, std::vector<std::string>* complaints) {
  Environment environment;
  for (const Variable& variable : variable_table) {
    const auto value = lookup(variable.name);
    if (!value || value->empty() || variable.set(*value, environment) || !complaints) continue;
    const std::string fault = variable.fault != nullptr ? variable.fault(*value) + "; " : "";
    complaints->push_back(
        fmt::format("{}={} is ignored: {}allowed is {}", variable.name, *value, fault, variable.allowed));
  }
  return environment;
}

std::optional<std::string> Environment::look_up(const char* name) {
  if (const char* value = std::getenv(name)) return value;
  for (const std::string& text : configuration_texts())
    if (auto value = find_setting(text, name)) return value;
  return std::nullopt;
}

Environment Environment::read() {
  std::vector<std::string> complaints = misspelt_variables(environ);
  Environment environment = parse(look_up, &complaints);
  for (const std::string& complaint : complaints)
    if (is_first_complaint(complaint)) log::warn(log::no_rank, "{}", complaint);
  if (log::enabled(LogLevel::info, Subsystem::env))
    for (const Variable& variable : variable_table)
      if (const auto value = look_up(variable.name); value && is_first_complaint(variable.name + ("=" + *value)))
        log::info(log::no_rank, Subsystem::env, "{} is {}", variable.name, *value);
  return environment;
}

std::optional<std::string> find_setting(std::string_view text, std::string_view name) {
  std::optional<std::string> found;
  for (std::string_view line : split_list(text, '\n')) {
    line = line.substr(0, line.find('#'));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || without_blanks(line.substr(0, equals)) != name) continue;
    found = without_blanks(line.substr(equals + 1));
  }
  return found;
}

}  // namespace softib::coll
