// Faults in words, the ends that they name, and scenario files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "fabric/faults/ends.h"
#include "fabric/faults/plan.h"
#include "fabric/faults/scenario.h"
#include "fabric/faults/targets.h"
#include "fabric/faults/words.h"

namespace softib::fabric {
namespace {

using ipc::FaultKind;
using testing::HasSubstr;
using testing::StartsWith;

const Fabric& lab() {
  static const Fabric fabric = *parse(
      "{fabric: lab, hosts: [a, b, {name: big, hcas: [{name: mlx5_0, ports: 2}, mlx5_1]}],"
      " switches: [{name: leaf0, ports: 8}, {name: leaf1, ports: 8}, {name: spine, ports: 4}],"
      " cables: [[a/mlx5_0, leaf0/1], [b/mlx5_0, leaf1/1], [leaf0/8, spine/1], [leaf1/8, spine/2], [big/mlx5_1, "
      "leaf1/2]]}",
      "lab");
  return fabric;
}

std::string end_text(std::string_view text) {
  auto end = parse_end(lab(), text);
  return end ? end_name(lab(), *end) : end.error().text;
}

TEST(Ends, AllWaysToNameThem) {
  EXPECT_EQ(end_text("leaf0:3"), "leaf0:3");
  EXPECT_EQ(end_text("leaf0/3"), "leaf0:3");
  EXPECT_EQ(end_text("big/mlx5_0:2"), "big/mlx5_0:2");
  EXPECT_EQ(end_text("big/mlx5_0/2"), "big/mlx5_0:2");
  EXPECT_EQ(end_text("big/mlx5_1"), "big/mlx5_1:1");
  EXPECT_EQ(end_text("a"), "a/mlx5_0:1");
}

TEST(Ends, ErrorsSayWhatThereIs) {
  EXPECT_EQ(end_text("laef0:1"), "the fabric has no switch or host 'laef0'; did you mean 'leaf0'?");
  EXPECT_EQ(end_text("elsewhere:1"),
            "the fabric has no switch or host 'elsewhere'; known are: leaf0, leaf1, spine, a, b, big");
  EXPECT_EQ(end_text("leaf0:9"), "switch 'leaf0' has no port '9'; its ports are 1 to 8");
  EXPECT_EQ(end_text("leaf0:0"), "switch 'leaf0' has no port '0'; its ports are 1 to 8");
  EXPECT_EQ(end_text("leaf0:"), "'leaf0' is a switch; name a port of it, as in leaf0:1");
  EXPECT_EQ(end_text("leaf0"), "'leaf0' is a switch; name a port of it, as in leaf0:1");
  EXPECT_EQ(end_text("a:1"), "'a' is a host; name its HCA too, as in a/mlx5_0:1");
  EXPECT_EQ(end_text("big"), "host 'big' has several ports; name one, as in big/mlx5_0:1");
  EXPECT_EQ(end_text("a/mlx4_0"), "host 'a' has no HCA 'mlx4_0'; did you mean 'mlx5_0'?");
  EXPECT_EQ(end_text("a/mlx5_0:2"), "HCA 'a/mlx5_0' has no port '2'; its only port is 1");
  EXPECT_EQ(end_text("a/mlx5_0/1/1"), "HCA 'a/mlx5_0' has no port '1/1'; its only port is 1");
  EXPECT_THAT(end_text(""), StartsWith("the fabric has no switch or host ''"));
  EXPECT_EQ(end_text("x\n\x1b[31m").find_first_of("\n\x1b"), std::string::npos);
}

std::string words_of(const std::string& line) {
  auto fault = parse_fault(lab(), split_words(line));
  return fault ? fault_words(lab(), *fault) : "error: " + fault.error().text;
}

TEST(Words, EachFaultThereAndBack) {
  const char* lines[] = {"link leaf0:1 down",
                         "link a/mlx5_0:1 up",
                         "link leaf0:1 flap --times 5 --every 200ms",
                         "link leaf0:1 width 1x",
                         "link leaf0:1 speed SDR",
                         "link leaf0:1 ber 1e-10",
                         "link leaf0:1 drop 1%",
                         "link leaf0:1 delay 10us",
                         "link leaf0:1 reset",
                         "link swap leaf0:1 leaf1:1",
                         "counters leaf0:8 stuck",
                         "counters leaf0:8 free",
                         "counters leaf0:8 add symbol_error 100",
                         "switch spine off",
                         "switch spine on",
                         "host a off",
                         "host a on",
                         "host a reboot --after 5s",
                         "hca a/mlx5_0 remove",
                         "hca a/mlx5_0 add",
                         "sm kill",
                         "sm restart",
                         "aggregation kill",
                         "aggregation restart"};
  for (const char* line : lines) EXPECT_EQ(words_of(line), line);
}

TEST(Words, OtherWaysToSayThem) {
  EXPECT_EQ(words_of("host a kill"), "host a off");
  EXPECT_EQ(words_of("hca a remove"), "hca a/mlx5_0 remove");
  EXPECT_EQ(words_of("link leaf0/1 flap"), "link leaf0:1 flap --times 1 --every 1s");
  EXPECT_EQ(words_of("link leaf0:1 flap --every 250 --times 2"), "link leaf0:1 flap --times 2 --every 250ms");
  EXPECT_EQ(words_of("link leaf0:1 drop 0.25"), "link leaf0:1 drop 25%");
  EXPECT_EQ(words_of("link leaf0:1 speed sdr"), "link leaf0:1 speed SDR");
  EXPECT_EQ(words_of("link leaf0:1 delay 0"), "link leaf0:1 delay 0ns");
}

TEST(Words, ErrorsSayWhatIsWrong) {
  const char* rows[][2] = {
      {"", "say what is to be done: link, counters, switch, host, hca, sm or aggregation"},
      {"lnk leaf0:1 down", "'lnk' is no fault; did you mean 'link'?"},
      {"link", "name an end of the link, as in leaf0:1 or host0/mlx5_0:1"},
      {"link leaf0:1", "say what happens to the link: down, up, flap, width, speed, ber, drop, delay, reset"},
      {"link leaf0:1 dwon", "'dwon' is no fault of a link; did you mean 'down'?"},
      {"link leaf0:1 down now", "'now' is too much"},
      {"link leaf0:1 down --times 2", "'--times' is too much"},
      {"link leaf0:1 flap --times 0", "--times must be a number from 1 to 1000000, not '0'"},
      {"link leaf0:1 flap --times", "--times needs a value"},
      {"link leaf0:1 flap --every 1us", "--every must be at least 1ms"},
      {"link leaf0:1 flap --times 2 --times 3", "'--times' is too much"},
      {"link leaf0:1 width 3x", "'3x' is no link width; did you mean '1x'?"},
      {"link leaf0:1 speed fast", "'fast' is no link speed; known are: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR"},
      {"link leaf0:1 ber 1", "'1' is no bit error rate; write a number from 0 to 0.5, as in 1e-10"},
      {"link leaf0:1 ber nan", "'nan' is no bit error rate; write a number from 0 to 0.5, as in 1e-10"},
      {"link leaf0:1 drop 101%", "'101%' is no share of packets; write 0% to 100%, or 0 to 1"},
      {"link leaf0:1 drop -1", "'-1' is no share of packets; write 0% to 100%, or 0 to 1"},
      {"link leaf0:1 delay 10", "'10' is no time; write it as in 10us, 200ms, 1.5s or 2min"},
      {"link leaf0:1 delay 11s", "a delay is at most 10s"},
      {"link swap leaf0:1", "name the second end too: link swap leaf0:1 leaf1:1"},
      {"counters leaf0:1 add symbols 1", "'symbols' is no counter of errors; known are: ..."},
      {"counters leaf0:1 add symbol_error -1", "'-1' is no number from 1 to 281474976710656"},
      {"switch leaf of", "the fabric has no switch 'leaf'; did you mean 'leaf0'?"},
      {"switch leaf0 of", "'of' is no fault of a switch; did you mean 'off'?"},
      {"switch a off", "the fabric has no switch 'a'; known are: leaf0, leaf1, spine"},
      {"host leaf0 off", "the fabric has no host 'leaf0'; known are: a, b, big"},
      {"host a reboot --after 2days", "'2days' is no time; write it as in 10us, 200ms, 1.5s or 2min"},
      {"hca", "name an HCA, as in host0/mlx5_0"},
      {"hca none/mlx5_0 remove", "the fabric has no host 'none'; known are: a, b, big"},
      {"hca a/mlx5_7 remove", "'mlx5_7' is no HCA of a; did you mean 'mlx5_0'?"},
      {"hca big remove", "say which HCA of big, as in big/mlx5_0"},
      {"hca a/mlx5_0", "say remove or add"},
      {"hca a/mlx5_0 off", "'off' is no fault of an HCA; known are: remove, add"},
      {"aggregation off", "'off' is no fault of aggregation; known are: kill, restart"},
      {"sm", "say kill or restart"}};
  for (const auto& [line, error] : rows) {
    std::string expected = error;
    const std::string got = words_of(line);
    if (expected.ends_with("..."))
      EXPECT_THAT(got, StartsWith("error: " + expected.substr(0, expected.size() - 3))) << line;
    else
      EXPECT_EQ(got, "error: " + expected) << line;
  }
}

TEST(Words, WhatMendsThem) {
  const char* rows[][2] = {{"link leaf0:1 down", "link leaf0:1 reset"},
                           {"link leaf0:1 flap", "link leaf0:1 reset"},
                           {"link leaf0:1 width 1x", "link leaf0:1 reset"},
                           {"link swap leaf0:1 leaf1:1", "link swap leaf0:1 leaf1:1"},
                           {"counters leaf0:1 stuck", "counters leaf0:1 free"},
                           {"switch spine off", "switch spine on"},
                           {"host a kill", "host a on"},
                           {"hca a/mlx5_0 remove", "hca a/mlx5_0 add"},
                           {"sm kill", "sm restart"},
                           {"aggregation kill", "aggregation restart"},
                           {"host a reboot", ""},
                           {"link leaf0:1 up", ""},
                           {"counters leaf0:1 add symbol_error 1", ""}};
  for (const auto& [line, mended] : rows) {
    const auto undo = undo_of(*parse_fault(lab(), split_words(line)));
    EXPECT_EQ(undo ? fault_words(lab(), *undo) : "", mended) << line;
  }
}

TEST(Words, Times) {
  EXPECT_EQ(*parse_time("1.5s"), 1'500'000'000U);
  EXPECT_EQ(*parse_time("2min"), 120'000'000'000U);
  EXPECT_EQ(*parse_time("7", "ms"), 7'000'000U);
  for (const char* bad : {"", "7", "s", "-1s", "1 s", "1e3s", "1s2", "1h", "..s", "999999999min"})
    EXPECT_FALSE(parse_time(bad)) << bad;
  EXPECT_EQ(time_words(1'500'000'000), "1500ms");
  EXPECT_EQ(time_words(120'000'000'000), "2min");
  EXPECT_EQ(time_words(0), "0ns");
}

TEST(Targets, Patterns) {
  EXPECT_TRUE(fits("leaf*:*", "leaf0:1"));
  EXPECT_TRUE(fits("*a*b*", "xxaxxbxx"));
  EXPECT_TRUE(fits("?", "x"));
  EXPECT_FALSE(fits("?", ""));
  EXPECT_FALSE(fits("leaf", "leaf0"));
  EXPECT_FALSE(fits("*aab", "aaaa"));
  EXPECT_TRUE(fits("*aab", "aaaab"));
  EXPECT_TRUE(fits("", ""));
}

TEST(Targets, WhatFits) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(targets_of(lab(), TargetKind::sw, "leaf"), (Names{"leaf0", "leaf1"}));
  EXPECT_EQ(targets_of(lab(), TargetKind::sw, "switch"), (Names{"leaf0", "leaf1", "spine"}));
  EXPECT_EQ(targets_of(lab(), TargetKind::host, "?"), (Names{"a", "b"}));
  const auto reducing = parse("{hosts: 2, aggregation: true}", "f.yaml");
  EXPECT_EQ(targets_of(*reducing, TargetKind::host, "*"), (Names{"host0", "host1"})) << "aggregation nodes are none";
  EXPECT_EQ(targets_of(lab(), TargetKind::link, "spine"), (Names{"spine:1", "spine:2"})) << "ports with a cable only";
  EXPECT_EQ(targets_of(lab(), TargetKind::link, "leaf*:8"), (Names{"leaf0:8", "leaf1:8"}));
  EXPECT_EQ(targets_of(lab(), TargetKind::port, "big/*"), (Names{"big/mlx5_1:1"}));
  EXPECT_EQ(targets_of(lab(), TargetKind::link, "link").size(), 10U);
}

// -- scenarios

std::string scenario_error(const char* text) {
  auto scenario = parse_scenario(lab(), text, "s.yaml");
  return scenario ? "accepted" : scenario.error().text;
}

TEST(Scenarios, ErrorsNameLineAndCause) {
  const char* rows[][2] = {
      {"", "s.yaml:1: a scenario is a map with 'steps'"},
      {"steps: [\n", "s.yaml:2: this is no YAML: ..."},
      {"seed: 1\n", "s.yaml:1: 'steps' must be a list of steps"},
      {"steps: []\n", "s.yaml:1: 'steps' must be a list of steps"},
      {"stepps: 1\n", "s.yaml:1: unknown key 'stepps' in a scenario; did you mean 'steps'?"},
      {"seed: x\nsteps: [{at: 1s, do: sm kill}]\n", "s.yaml:1: a seed must be a number from 0 to ..."},
      {"steps:\n  - {do: sm kill}\n", "s.yaml:2: a step needs 'at' or 'every'"},
      {"steps:\n  - {at: 1s}\n", "s.yaml:2: a step needs 'do', as in: do: link leaf0:1 down"},
      {"steps:\n  - at: 1s\n    do: []\n", "s.yaml:3: 'do' needs a fault, as in: do: link leaf0:1 down"},
      {"steps:\n  - {at: soon, do: sm kill}\n",
       "s.yaml:2: 'soon' is no time; write it as in 10us, 200ms, 1.5s or 2min"},
      {"steps:\n  - {every: 2s..1s, do: sm kill}\n",
       "s.yaml:2: 'every' is 1ms at least, and a range goes from the shorter to the longer"},
      {"steps:\n  - {every: 1us, do: sm kill}\n",
       "s.yaml:2: 'every' is 1ms at least, and a range goes from the shorter to the longer"},
      {"steps:\n  - {at: 1s, until: 3s, do: sm kill}\n",
       "s.yaml:2: 'until' is for steps with 'every'; 'for' says how long a fault lasts"},
      {"steps:\n  - {at: 1s, do: link leaf9:1 down}\n",
       "s.yaml:2: the fabric has no switch or host 'leaf9'; did you mean 'leaf0'?"},
      {"steps:\n  - {at: 1s, do: link any core flap}\n", "s.yaml:2: nothing in the fabric fits 'core'"},
      {"steps:\n  - {at: 1s, do: link any}\n", "s.yaml:2: 'any' of what?"},
      {"steps:\n  - {at: 1s, do: link swap all leaf leaf0:1}\n", "s.yaml:2: 'all' can't be swapped; write 'any'"},
      {"steps:\n  - at: 1s\n    do:\n      - sm kill\n      - sm revive\n",
       "s.yaml:5: 'revive' is no fault of the subnet manager; known are: kill, restart"}};
  for (const auto& [text, error] : rows) {
    std::string expected = error;
    if (expected.ends_with("..."))
      EXPECT_THAT(scenario_error(text), StartsWith(expected.substr(0, expected.size() - 3))) << text;
    else
      EXPECT_EQ(scenario_error(text), expected) << text;
  }
}

constexpr const char* busy = R"(
scenario: busy
seed: 5
until: 20s
steps:
  - {at: 2s, do: link leaf0:1 down, for: 3s}
  - {every: 500ms..2s, do: link any leaf flap}
  - {at: 1s, every: 5s, until: 12s, do: switch any switch off, for: 500ms}
  - at: 3s
    do:
      - host all ? reboot
      - link swap any leaf*:1 any leaf*:8
)";

std::string transcript(const char* text, u64 seed, size_t most = 1000) {
  const Scenario scenario = *parse_scenario(lab(), text, "s.yaml");
  ScenarioPlan plan(scenario, lab(), seed);
  std::string lines;
  for (size_t i = 0; i < most; ++i) {
    const auto planned = plan.next();
    if (!planned) return lines;
    for (const auto& fault : planned->faults)
      lines +=
          std::to_string(planned->at / 1'000'000) + (planned->undo ? " undo " : " ") + fault_words(lab(), fault) + "\n";
  }
  return lines + "...";
}

TEST(Scenarios, TheSameSeedGivesTheSameFaults) {
  EXPECT_EQ(transcript(busy, 5), transcript(busy, 5));
  std::set<std::string> different;
  for (u64 seed = 0; seed < 20; ++seed) different.insert(transcript(busy, seed));
  EXPECT_EQ(different.size(), 20U);
}

TEST(Scenarios, WhatIsFixedHappensAtItsTime) {
  const std::string lines = transcript(busy, 9);
  for (const char* line : {"2000 link leaf0:1 down\n", "5000 undo link leaf0:1 reset\n",
                           "3000 host a reboot --after 1s\n", "3000 host b reboot --after 1s\n"})
    EXPECT_THAT(lines, HasSubstr(line));
  EXPECT_EQ(lines.find("host big"), std::string::npos);
}

TEST(Scenarios, InOrderOfTimeAndWithinTheirLimits) {
  std::istringstream lines(transcript(busy, 77));
  u64 before = 0;
  u64 last_flap = 0;
  size_t flaps = 0, switches = 0;
  for (std::string line; std::getline(lines, line);) {
    const u64 at = std::stoull(line);
    EXPECT_GE(at, before) << line;
    before = at;
    EXPECT_LE(at, 20'000U);
    if (line.find("flap") != line.npos) {
      EXPECT_GE(at - last_flap, 500U);
      EXPECT_LE(at - last_flap, 2000U);
      last_flap = at;
      ++flaps;
    }
    if (line.find("off") != line.npos) {
      EXPECT_EQ(at % 5000, 1000U);
      ++switches;
    }
  }
  EXPECT_GT(flaps, 9U);
  EXPECT_EQ(switches, 3U) << "at 1, 6 and 11 s";
}

TEST(Scenarios, ChanceReachesAll) {
  const char* text = "steps: [{every: 1ms, until: 1s, do: link any leaf down}]";
  std::set<std::string> ends;
  std::istringstream lines(transcript(text, 3, 2000));
  for (std::string line; std::getline(lines, line);) ends.insert(line.substr(line.find("link")));
  EXPECT_EQ(ends.size(), 5U);
}

TEST(Scenarios, ACableIsNotSwappedWithItself) {
  const char* text = "steps: [{every: 1ms, until: 1s, do: link swap any leaf0 any spine}]";
  std::istringstream lines(transcript(text, 3, 2000));
  size_t swaps = 0;
  for (std::string line; std::getline(lines, line); ++swaps) EXPECT_EQ(line.find("leaf0:8 spine:1"), line.npos);
  EXPECT_EQ(swaps, 1000U);
}

// The fuzzer's recorded inputs, in every build.
TEST(Scenarios, Corpus) {
  size_t good = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SOFTIB_CORPUS) + "/scenario")) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    auto scenario = parse_scenario(lab(), text.str(), "fuzz");
    EXPECT_TRUE(scenario || scenario.error().text.find('\n') == std::string::npos) << entry.path();
    good += scenario.has_value();
  }
  EXPECT_GE(good, 3U);
}

}  // namespace
}  // namespace softib::fabric
