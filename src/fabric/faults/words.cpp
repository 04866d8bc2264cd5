#include "fabric/faults/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/durations.h"
#include "fabric/error.h"
#include "fabric/faults/ends.h"
#include "fabric/rates.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric {

namespace {

using ipc::FaultKind;
using Words = std::span<const std::string>;
using Choices = std::vector<std::string_view>;

constexpr u64 longest_time = 24 * 3600 * ns::second;
constexpr u64 longest_delay = 10 * ns::second;
constexpr u64 shortest_flap = ns::millisecond;
constexpr u32 most_flaps = 1'000'000;
constexpr u64 most_counts = u64{1} << 48;

struct Unit {
  std::string_view name;
  u64 ns;
};
constexpr Unit units[] = {
    {"ns", 1}, {"us", 1000}, {"ms", ns::millisecond}, {"s", ns::second}, {"min", 60 * ns::second}};

std::optional<double> parse_real(std::string_view text) {
  const std::string copy(text);
  if (copy.empty() || std::isspace(static_cast<unsigned char>(copy[0]))) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

ipc::FaultPlace place_of(const CableEnd& end) {
  return {end.kind == EndKind::sw ? 1U : 0U, end.node, end.hca, end.port};
}

CableEnd end_of(const ipc::FaultPlace& place) {
  return {place.is_switch ? EndKind::sw : EndKind::hca, place.node, place.hca, place.port};
}

// Reads words one after the other. The first error stays.
class Reader {
 public:
  Reader(const Fabric& fabric, Words words) : fabric_(fabric), words_(words) {}

  Parsed<FaultRequest> read() {
    const Choices verbs{"link", "counters", "switch", "host", "hca", "sm", "aggregation"};
    const std::string verb = next("say what is to be done: link, counters, switch, host, hca, sm or aggregation");
    if (verb == "link")
      read_link();
    else if (verb == "counters")
      read_counters();
    else if (verb == "switch")
      read_switch();
    else if (verb == "host")
      read_host();
    else if (verb == "hca")
      read_hca();
    else if (verb == "sm")
      read_program("the subnet manager", FaultKind::stop_manager, FaultKind::start_manager);
    else if (verb == "aggregation")
      read_program("aggregation", FaultKind::stop_aggregation, FaultKind::start_aggregation);
    else
      unknown("fault", verb, verbs);
    if (!error_ && at_ < words_.size()) fail(fmt::format("'{}' is too much", words_[at_]));
    if (error_) return refuse(*error_);
    return fault_;
  }

 private:
  void fail(std::string text) {
    if (!error_) error_ = std::move(text);
  }

  void unknown(std::string_view what, const std::string& word, const Choices& choices) {
    fail(fmt::format("'{}' is no {}{}", word, what, hint(word, choices)));
  }

  [[nodiscard]] bool more() const { return !error_ && at_ < words_.size(); }

  std::string next(std::string_view missing) {
    if (more()) return words_[at_++];
    fail(std::string(missing));
    return {};
  }

  template <typename T>
  T take(Parsed<T> value) {
    if (value) return *value;
    fail(value.error().text);
    return T{};
  }

  ipc::FaultPlace next_end(std::string_view missing) {
    const std::string word = next(missing);
    return error_ ? ipc::FaultPlace{} : place_of(take(parse_end(fabric_, word)));
  }

  // --name VALUE, in any order.
  std::optional<std::string> option(std::string_view name) {
    for (size_t i = at_; !error_ && i < words_.size(); ++i) {
      if (words_[i] != name) continue;
      if (i + 1 == words_.size()) {
        fail(fmt::format("{} needs a value", name));
        return std::nullopt;
      }
      used_.push_back(i);
      return words_[i + 1];
    }
    return std::nullopt;
  }

  void skip_options() {
    std::sort(used_.begin(), used_.end());
    for (const size_t i : used_)
      if (i == at_) at_ += 2;
  }

  void read_link() {
    if (more() && words_[at_] == "swap") {
      ++at_;
      fault_.kind = FaultKind::swap;
      fault_.a = next_end("name the two ends: link swap leaf0:1 leaf1:1");
      fault_.b = next_end("name the second end too: link swap leaf0:1 leaf1:1");
      return;
    }
    fault_.a = next_end("name an end of the link, as in leaf0:1 or host0/mlx5_0:1");
    const Choices actions{"down", "up", "flap", "width", "speed", "ber", "drop", "delay", "reset"};
    const std::string action =
        next("say what happens to the link: down, up, flap, width, speed, ber, drop, delay, reset");
    if (error_) return;
    const auto found = std::find(actions.begin(), actions.end(), action);
    if (found == actions.end()) return unknown("fault of a link", action, actions);
    constexpr FaultKind kinds[] = {FaultKind::link_down,  FaultKind::link_up,    FaultKind::link_flap,
                                   FaultKind::link_width, FaultKind::link_speed, FaultKind::bit_errors,
                                   FaultKind::drop,       FaultKind::delay,      FaultKind::link_reset};
    fault_.kind = kinds[found - actions.begin()];
    read_value();
  }

  void read_value() {
    switch (fault_.kind) {
      case FaultKind::link_flap:
        return read_flap();
      case FaultKind::link_width:
        return read_width(next("say how wide: 1x, 2x, 4x, 8x or 12x"));
      case FaultKind::link_speed:
        return read_speed(next("say how fast: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR"));
      case FaultKind::bit_errors:
        return read_bit_errors(next("say the bit error rate, as in 1e-10"));
      case FaultKind::drop:
        return read_drop(next("say how many packets get lost, as in 1%"));
      case FaultKind::delay:
        return read_delay(next("say how long packets take, as in 10us"));
      default:
        return;
    }
  }

  void read_flap() {
    fault_.times = 1;
    fault_.ns = ns::second;
    if (const auto times = option("--times")) {
      const auto number = parse_number(*times);
      if (!number || *number == 0 || *number > most_flaps)
        return fail(fmt::format("--times must be a number from 1 to {}, not '{}'", most_flaps, *times));
      fault_.times = static_cast<u32>(*number);
    }
    if (const auto every = option("--every")) fault_.ns = take(parse_time(*every, "ms"));
    if (!error_ && fault_.ns < shortest_flap) fail("--every must be at least 1ms");
    skip_options();
  }

  void read_width(const std::string& word) {
    const auto width = width_from_name(word);
    if (!width) return unknown("link width", word, {"1x", "2x", "4x", "8x", "12x"});
    fault_.amount = static_cast<u64>(*width);
  }

  void read_speed(const std::string& word) {
    Choices names;
    for (const SpeedRow& row : speed_table) names.push_back(row.name);
    const auto speed = speed_from_name(word);
    if (!speed) return unknown("link speed", word, names);
    fault_.amount = static_cast<u64>(*speed);
  }

  void read_bit_errors(const std::string& word) {
    const auto rate = parse_real(word);
    if (!rate || *rate < 0 || *rate > 0.5)
      return fail(fmt::format("'{}' is no bit error rate; write a number from 0 to 0.5, as in 1e-10", word));
    fault_.rate = *rate;
  }

  void read_drop(std::string_view word) {
    const bool percent = word.ends_with('%');
    const auto share = parse_real(percent ? word.substr(0, word.size() - 1) : word);
    const double rate = share ? *share / (percent ? 100 : 1) : -1;
    if (rate < 0 || rate > 1)
      return fail(fmt::format("'{}' is no share of packets; write 0% to 100%, or 0 to 1", word));
    fault_.rate = rate;
  }

  void read_delay(const std::string& word) {
    fault_.ns = word == "0" ? 0 : take(parse_time(word));
    if (!error_ && fault_.ns > longest_delay) fail(fmt::format("a delay is at most {}", time_words(longest_delay)));
  }

  void read_counters() {
    fault_.a = next_end("name a port, as in leaf0:1 or host0/mlx5_0:1");
    const std::string action = next("say what happens to the counters: stuck, free or add");
    if (error_) return;
    if (action == "stuck") {
      fault_.kind = FaultKind::stick_counters;
    } else if (action == "free") {
      fault_.kind = FaultKind::free_counters;
    } else if (action == "add") {
      fault_.kind = FaultKind::add_count;
      read_count();
    } else {
      unknown("fault of counters", action, {"stuck", "free", "add"});
    }
  }

  void read_count() {
    const std::string name = next("name a counter and how many to add, as in symbol_error 100");
    const std::string amount = next("say how many to add, as in symbol_error 100");
    if (error_) return;
    const auto counter = ipc::port_counter_named(name);
    if (!counter || !ipc::counts_errors(*counter)) return unknown("counter of errors", name, counter_names());
    fault_.counter = *counter;
    const auto number = parse_number(amount);
    if (!number || *number == 0 || *number > most_counts)
      return fail(fmt::format("'{}' is no number from 1 to {}", amount, most_counts));
    fault_.amount = *number;
  }

  void read_switch() {
    const std::string name = next("name a switch");
    if (error_) return;
    fault_.a = {1, take(parse_switch(fabric_, name)), 0, 0};
    const std::string action = next("say off or on");
    if (error_) return;
    if (action != "off" && action != "on") return unknown("fault of a switch", action, {"off", "on"});
    fault_.kind = action == "off" ? FaultKind::power_off : FaultKind::power_on;
  }

  void read_host() {
    const std::string name = next("name a host");
    if (error_) return;
    fault_.a = {0, take(parse_host(fabric_, name)), 0, 0};
    const std::string action = next("say kill, off, on or reboot");
    if (error_) return;
    if (action == "kill" || action == "off") {
      fault_.kind = FaultKind::power_off;
    } else if (action == "on") {
      fault_.kind = FaultKind::power_on;
    } else if (action == "reboot") {
      fault_.kind = FaultKind::reboot;
      fault_.ns = ns::second;
      if (const auto after = option("--after")) fault_.ns = take(parse_time(*after, "ms"));
      skip_options();
    } else {
      unknown("fault of a host", action, {"kill", "off", "on", "reboot"});
    }
  }

  void read_hca() {
    const std::string name = next("name an HCA, as in host0/mlx5_0");
    if (error_) return;
    const size_t slash = std::min(name.find('/'), name.size());
    fault_.a = {0, take(parse_host(fabric_, name.substr(0, slash))), 0, 0};
    if (!error_) fault_.a.hca = which_hca(fabric_.hosts[fault_.a.node], name.substr(std::min(slash + 1, name.size())));
    const std::string action = next("say remove or add");
    if (error_) return;
    if (action != "remove" && action != "add") return unknown("fault of an HCA", action, {"remove", "add"});
    fault_.kind = action == "remove" ? FaultKind::remove_hca : FaultKind::add_hca;
  }

  // A host's only one needs no name.
  u32 which_hca(const Host& host, const std::string& name) {
    Choices names;
    for (const Hca& hca : host.hcas) names.push_back(hca.name);
    if (name.empty() && names.size() == 1) return 0;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      name.empty() ? fail(fmt::format("say which HCA of {}, as in {}/mlx5_0", host.name, host.name))
                   : unknown("HCA of " + host.name, name, names);
      return 0;
    }
    return static_cast<u32>(found - names.begin());
  }

  void read_program(std::string_view what, FaultKind kill, FaultKind restart) {
    const std::string action = next("say kill or restart");
    if (error_) return;
    if (action != "kill" && action != "restart")
      return unknown(fmt::format("fault of {}", what), action, {"kill", "restart"});
    fault_.kind = action == "kill" ? kill : restart;
  }

  const Fabric& fabric_;
  Words words_;
  size_t at_ = 0;
  std::vector<size_t> used_;
  FaultRequest fault_{};
  std::optional<std::string> error_;
};

std::string node_name(const Fabric& fabric, const ipc::FaultPlace& place) {
  return place.is_switch ? "switch " + fabric.switches[place.node].name : "host " + fabric.hosts[place.node].name;
}

std::string link_words(const Fabric& fabric, const FaultRequest& fault) {
  const std::string link = "link " + end_name(fabric, end_of(fault.a));
  switch (fault.kind) {
    case FaultKind::link_down:
      return link + " down";
    case FaultKind::link_up:
      return link + " up";
    case FaultKind::link_flap:
      return fmt::format("{} flap --times {} --every {}", link, fault.times, time_words(fault.ns));
    case FaultKind::link_width:
      return fmt::format("{} width {}", link, name_of(static_cast<Width>(fault.amount)));
    case FaultKind::link_speed:
      return fmt::format("{} speed {}", link, name_of(static_cast<Speed>(fault.amount)));
    case FaultKind::bit_errors:
      return fmt::format("{} ber {}", link, fault.rate);
    case FaultKind::drop:
      return fmt::format("{} drop {:g}%", link, fault.rate * 100);
    case FaultKind::delay:
      return fmt::format("{} delay {}", link, time_words(fault.ns));
    default:
      return link + " reset";
  }
}

}  // namespace

std::vector<std::string_view> counter_names() {
  std::vector<std::string_view> names;
  for (const std::string_view name : ipc::port_counter_names)
    if (ipc::counts_errors(*ipc::port_counter_named(name))) names.push_back(name);
  return names;
}

Parsed<FaultRequest> parse_fault(const Fabric& fabric, Words words) { return Reader(fabric, words).read(); }

std::string fault_words(const Fabric& fabric, const FaultRequest& fault) {
  switch (fault.kind) {
    case FaultKind::swap:
      return fmt::format("link swap {} {}", end_name(fabric, end_of(fault.a)), end_name(fabric, end_of(fault.b)));
    case FaultKind::stick_counters:
      return fmt::format("counters {} stuck", end_name(fabric, end_of(fault.a)));
    case FaultKind::free_counters:
      return fmt::format("counters {} free", end_name(fabric, end_of(fault.a)));
    case FaultKind::add_count:
      return fmt::format("counters {} add {} {}", end_name(fabric, end_of(fault.a)),
                         ipc::port_counter_names[static_cast<size_t>(fault.counter)], fault.amount);
    case FaultKind::power_off:
      return node_name(fabric, fault.a) + " off";
    case FaultKind::power_on:
      return node_name(fabric, fault.a) + " on";
    case FaultKind::reboot:
      return fmt::format("{} reboot --after {}", node_name(fabric, fault.a), time_words(fault.ns));
    case FaultKind::remove_hca:
    case FaultKind::add_hca:
      return fmt::format("hca {}/{} {}", fabric.hosts[fault.a.node].name,
                         fabric.hosts[fault.a.node].hcas[fault.a.hca].name,
                         fault.kind == FaultKind::remove_hca ? "remove" : "add");
    case FaultKind::stop_manager:
      return "sm kill";
    case FaultKind::start_manager:
      return "sm restart";
    case FaultKind::stop_aggregation:
      return "aggregation kill";
    case FaultKind::start_aggregation:
      return "aggregation restart";
    default:
      return link_words(fabric, fault);
  }
}

std::optional<FaultRequest> undo_of(const FaultRequest& fault) {
  FaultRequest undo = fault;
  switch (fault.kind) {
    case FaultKind::swap:
      return undo;
    case FaultKind::stick_counters:
      undo.kind = FaultKind::free_counters;
      return undo;
    case FaultKind::power_off:
      undo.kind = FaultKind::power_on;
      return undo;
    case FaultKind::remove_hca:
      undo.kind = FaultKind::add_hca;
      return undo;
    case FaultKind::stop_manager:
      undo.kind = FaultKind::start_manager;
      return undo;
    case FaultKind::stop_aggregation:
      undo.kind = FaultKind::start_aggregation;
      return undo;
    case FaultKind::link_down:
    case FaultKind::link_flap:
    case FaultKind::link_width:
    case FaultKind::link_speed:
    case FaultKind::bit_errors:
    case FaultKind::drop:
    case FaultKind::delay:
      undo = {};
      undo.kind = FaultKind::link_reset;
      undo.a = fault.a;
      return undo;
    default:
      return std::nullopt;
  }
}

Parsed<u64> parse_time(std::string_view text, std::string_view unit) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view name = digits == text.size() ? unit : text.substr(digits);
  const auto number = parse_real(text.substr(0, digits));
  for (const Unit& known : units) {
    if (!number || known.name != name) continue;
    const double value = *number * static_cast<double>(known.ns);
    if (value <= static_cast<double>(longest_time)) return static_cast<u64>(std::llround(value));
    return refuse(fmt::format("'{}' is too long; a day is the most", text.substr(0, 40)));
  }
  return refuse(fmt::format("'{}' is no time; write it as in 10us, 200ms, 1.5s or 2min", text.substr(0, 40)));
}

std::string time_words(u64 nanoseconds) {
  const Unit* best = &units[0];
  for (const Unit& unit : units)
    if (nanoseconds >= unit.ns && nanoseconds % unit.ns == 0) best = &unit;
  return fmt::format("{}{}", nanoseconds / best->ns, best->name);
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  while (true) {
    const size_t begin = line.find_first_not_of(" \t\n");
    if (begin == line.npos) return words;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

}  // namespace softib::fabric
