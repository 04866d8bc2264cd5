#include "fabric/faults/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/durations.h"
#include "base/error_text.h"
#include "fabric/faults/targets.h"
#include "fabric/faults/words.h"
#include "fabric/runtime.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric {

namespace {

constexpr u64 shortest_interval = ns::millisecond;
constexpr size_t most_steps = 10'000;
constexpr size_t most_lines = 10'000;  // in all: aliases make much of little

// Where a verb's targets stand, and of what kind they are.
std::vector<TargetKind> kinds_of_targets(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  if (words[0] == "link" && words.size() > 1 && words[1] == "swap") return {TargetKind::link, TargetKind::link};
  if (words[0] == "link") return {TargetKind::link};
  if (words[0] == "counters") return {TargetKind::port};
  if (words[0] == "switch") return {TargetKind::sw};
  if (words[0] == "host") return {TargetKind::host};
  return {};
}

class ScenarioParser {
 public:
  ScenarioParser(const Fabric& fabric, std::string_view source) : fabric_(fabric), reader_(source) {}

  Parsed<Scenario> parse(std::string_view text) {
    Scenario scenario;
    try {
      read(YAML::Load(std::string(text)), scenario);
    } catch (const YAML::Exception& error) {
      reader_.fail(error.mark.is_null() ? 1 : error.mark.line + 1, "this is no YAML: " + error.msg);
    }
    if (!reader_.ok()) return refuse(one_line(reader_.error()));
    return scenario;
  }

 private:
  void read(const YAML::Node& root, Scenario& scenario) {
    if (!root.IsMap()) return reader_.fail(1, "a scenario is a map with 'steps'");
    if (!reader_.check_map(root, "a scenario", {"scenario", "seed", "until", "steps"})) return;
    scenario.name = reader_.text(root["scenario"]);
    scenario.seed = reader_.number(root["seed"], "a seed", 0, ~u64{0}, 1);
    scenario.until = time(root["until"], no_time);
    const YAML::Node steps = root["steps"];
    if (!steps.IsDefined() || !steps.IsSequence() || steps.size() == 0)
      return reader_.fail(steps.IsDefined() ? steps : root, "'steps' must be a list of steps");
    if (steps.size() > most_steps) return reader_.fail(steps, fmt::format("more than {} steps", most_steps));
    for (const auto& step : steps) {
      if (!reader_.ok()) return;
      scenario.steps.push_back(read_step(step));
    }
  }

  u64 time(const YAML::Node& node, u64 fallback) {
    if (!reader_.ok() || !node.IsDefined()) return fallback;
    const auto parsed = parse_time(reader_.text(node));
    if (parsed) return *parsed;
    reader_.fail(node, parsed.error().text);
    return fallback;
  }

  ScenarioStep read_step(const YAML::Node& node) {
    ScenarioStep step;
    if (!reader_.check_map(node, "a step", {"at", "every", "until", "for", "do"})) return step;
    if (!node["at"].IsDefined() && !node["every"].IsDefined()) reader_.fail(node, "a step needs 'at' or 'every'");
    step.at = time(node["at"], no_time);
    step.until = time(node["until"], no_time);
    step.lasting = time(node["for"], no_time);
    read_every(node["every"], step);
    if (step.every_most == 0 && node["until"].IsDefined())
      reader_.fail(node["until"], "'until' is for steps with 'every'; 'for' says how long a fault lasts");
    const YAML::Node lines = node["do"];
    if (!lines.IsDefined()) {
      reader_.fail(node, "a step needs 'do', as in: do: link leaf0:1 down");
    } else if (lines.IsSequence()) {
      if (lines.size() == 0) reader_.fail(lines, "'do' needs a fault, as in: do: link leaf0:1 down");
      for (const auto& line : lines)
        if (reader_.ok()) step.faults.push_back(read_line(line));
    } else {
      step.faults.push_back(read_line(lines));
    }
    return step;
  }

  // "2s", or "500ms..2s" for a time in between each time.
  void read_every(const YAML::Node& node, ScenarioStep& step) {
    if (!reader_.ok() || !node.IsDefined()) return;
    const std::string text = reader_.text(node);
    const size_t dots = text.find("..");
    const auto least = parse_time(text.substr(0, dots));
    const auto most = dots == text.npos ? least : parse_time(text.substr(dots + 2));
    if (!least) return reader_.fail(node, least.error().text);
    if (!most) return reader_.fail(node, most.error().text);
    if (*least < shortest_interval || *most < *least)
      return reader_.fail(node, "'every' is 1ms at least, and a range goes from the shorter to the longer");
    step.every_least = *least;
    step.every_most = *most;
  }

  FaultLine read_line(const YAML::Node& node) {
    FaultLine line;
    const std::string text = reader_.text(node);
    if (++lines_ > most_lines) reader_.fail(node, fmt::format("more than {} faults", most_lines));
    if (!reader_.ok()) return line;
    const std::vector<std::string> words = split_words(text);
    const auto kinds = kinds_of_targets(words);
    const size_t first = kinds.size() == 2 ? 2 : 1;
    for (size_t i = 0; i < std::min(first, words.size()); ++i) line.words.push_back(words[i]);
    size_t at = line.words.size();
    for (const TargetKind kind : kinds) read_target(node, kind, words, at, line);
    for (; at < words.size(); ++at) line.words.push_back(words[at]);
    if (reader_.ok()) check(node, line);
    return line;
  }

  void read_target(const YAML::Node& node, TargetKind kind, const std::vector<std::string>& words, size_t& at,
                   FaultLine& line) {
    if (!reader_.ok() || at >= words.size()) return;
    FaultLine::Target target{line.words.size(), FaultLine::Pick::one, {}};
    const bool all = words[at] == "all";
    const bool chosen = all || words[at] == "any";
    if (chosen && ++at == words.size()) return reader_.fail(node, fmt::format("'{}' of what?", words[at - 1]));
    const std::string& word = words[at++];
    line.words.push_back(word);
    if (!chosen && !is_pattern(word)) return;
    if (all && line.words[1] == "swap") return reader_.fail(node, "'all' can't be swapped; write 'any'");
    target.pick = all ? FaultLine::Pick::all : FaultLine::Pick::one;
    target.fitting = targets_of(fabric_, kind, word);
    if (target.fitting.empty()) return reader_.fail(node, fmt::format("nothing in the fabric fits '{}'", word));
    line.targets.push_back(std::move(target));
  }

  // With the first of what fits in the places of the targets.
  void check(const YAML::Node& node, const FaultLine& line) {
    std::vector<std::string> words = line.words;
    for (const FaultLine::Target& target : line.targets) words[target.word] = target.fitting.front();
    if (auto fault = parse_fault(fabric_, words); !fault) reader_.fail(node, fault.error().text);
  }

  const Fabric& fabric_;
  YamlReader reader_;
  size_t lines_ = 0;
};

}  // namespace

Parsed<Scenario> parse_scenario(const Fabric& fabric, std::string_view text, std::string_view source) {
  return ScenarioParser(fabric, source).parse(text);
}

Parsed<Scenario> load_scenario(const Fabric& fabric, const std::string& path) {
  auto text = read_file(path);
  if (!text) return refuse(fmt::format("{}: {}", path, error_text(text.error())));
  return parse_scenario(fabric, *text, path);
}

}  // namespace softib::fabric
