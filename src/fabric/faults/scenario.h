// Scenario files: faults at times, some of them by chance (docs/scenarios.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric {

inline constexpr u64 no_time = ~u64{0};

// A fault in words, in which each target that says "any" or "all" stands for those that it fits.
struct FaultLine {
  enum class Pick : u8 { one, all };
  struct Target {
    size_t word;  // its place among `words`
    Pick pick = Pick::one;
    std::vector<std::string> fitting;
  };
  std::vector<std::string> words;
  std::vector<Target> targets;
};

struct ScenarioStep {
  u64 at = 0;  // nanoseconds from the start
  u64 every_least = 0;
  u64 every_most = 0;     // 0: once
  u64 until = no_time;    // the last time that it may happen
  u64 lasting = no_time;  // undone after that
  std::vector<FaultLine> faults;
};

struct Scenario {
  std::string name;
  u64 seed = 1;
  u64 until = no_time;
  std::vector<ScenarioStep> steps;
};

// Every line is checked against the fabric. The error is one line: "bad.yaml:4: the fabric has no switch 'leaf9'; ...".
[[nodiscard]] Parsed<Scenario> parse_scenario(const Fabric& fabric, std::string_view text, std::string_view source);
[[nodiscard]] Parsed<Scenario> load_scenario(const Fabric& fabric, const std::string& path);

}  // namespace softib::fabric
