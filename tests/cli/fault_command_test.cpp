// softib link, counters, switch, host, sm and scenario, on a real daemon.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "command.h"

namespace softib::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class FaultCommands : public CommandTest {
 protected:
  void up() { ASSERT_EQ(softib({"up"}).exit_code, 0); }
  std::string faults() {
    std::string text;
    const json status = json::parse(softib({"status", "--json"}).out);
    for (const json& fault : status["faults"])
      text += fault["what"].get<std::string>() + ": " + fault["fault"].get<std::string>() + "\n";
    return text;
  }
};

TEST_F(FaultCommands, BreakShowAndMend) {
  up();
  Outcome outcome = softib({"link", "sw0:1", "down"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "link sw0:1 down\n");
  EXPECT_EQ(softib({"link", "host0", "down"}).out, "link host0/mlx5_0:1 down; it was so already\n");
  EXPECT_EQ(softib({"link", "sw0:1"}).out,
            "END    END             STATE  PHYSICAL  WIDTH  SPEED  FAULTS\n"
            "sw0:1  host0/mlx5_0:1  DOWN   Polling   -      -      down\n");
  EXPECT_EQ(json::parse(softib({"link", "--json"}).out).size(), 2U);
  EXPECT_THAT(softib({"status"}).out, HasSubstr("sw0:1 - host0/mlx5_0:1       down\n"));
  EXPECT_EQ(softib({"link", "sw0:1", "reset"}).exit_code, 0);
  EXPECT_EQ(faults(), "");
  EXPECT_EQ(softib({"counters", "sw0:1", "stuck"}).out, "counters sw0:1 stuck\n");
  EXPECT_EQ(softib({"switch", "sw0", "off"}).exit_code, 0);
  EXPECT_EQ(softib({"sm", "kill"}).exit_code, 0);
  EXPECT_EQ(faults(), "switch sw0: off\nsubnet manager: dead\nsw0:1: counters stuck\n");
}

TEST_F(FaultCommands, WhatCantBe) {
  EXPECT_THAT(softib({"link", "sw0:1", "down"}).err, HasSubstr("fabric 'default' is not running"));
  up();
  struct Row {
    std::vector<std::string> words;
    int exit_code;
    const char* error;
  };
  const Row rows[] = {
      {{"link", "sw1:1", "down"}, 2, "softib: link: the fabric has no switch or host 'sw1'; did you mean 'sw0'?\n"},
      {{"link", "sw0:1", "dwon"}, 2, "softib: link: 'dwon' is no fault of a link; did you mean 'down'?\n"},
      {{"link", "sw0:9", "down"}, 1, "softib: link sw0:9 down: no cable is plugged in there\n"},
      {{"link", "sw0:1", "down", "--times", "3"}, 2, "softib: link: '--times' is too much\n"},
      {{"link", "sw0:1", "--times", "3"}, 2, "softib: link: --times and --every are for flap"},
      {{"link", "swap"}, 2, "softib: link: name the two ends"},
      {{"link", "nobody"}, 2, "softib: link: the fabric has no switch or host 'nobody'"},
      {{"link", "swap", "sw0:1", "host0"},
       1,
       "softib: link swap sw0:1 host0/mlx5_0:1: these are the two ends of one cable\n"},
      {{"host", "host2", "kill"}, 2, "softib: host: the fabric has no host 'host2'; did you mean 'host0'?\n"},
      {{"sm"}, 2, "softib: "},
      {{"scenario", file("none")}, 1, "softib: "},
  };
  for (const Row& row : rows) {
    Outcome outcome = softib(row.words);
    EXPECT_EQ(outcome.exit_code, row.exit_code) << row.error;
    EXPECT_THAT(outcome.err, StartsWith(row.error));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultCommands, EthernetHasNone) {
  ASSERT_EQ(softib({"up", "--link-layer", "ethernet"}).exit_code, 0);
  Outcome outcome = softib({"link", "sw0:1", "down"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "softib: link sw0:1 down: fabric 'default' is Ethernet; faults are for InfiniBand\n");
  EXPECT_THAT(softib({"link"}).err, HasSubstr("the fabric is Ethernet"));
  EXPECT_EQ(softib({"link", "--json"}).out, "[]\n");
}

// A program that has a device open dies with its host; one on another host, and one without, live on.
TEST_F(FaultCommands, KillingAHostKillsItsPrograms) {
  up();
  Outcome outcome = shell(
      "for host in host0 host1; do \"$SOFTIB\" run $host -- ibv_asyncwatch >/dev/null 2>&1 & pids=\"$pids $!\"; done\n"
      "until [ \"$(\"$SOFTIB\" status --json | grep -c '\"slot\"')\" = 2 ]; do sleep 0.02; done\n"
      "\"$SOFTIB\" host host1 kill\n"
      "set -- $pids; wait $2; echo \"host1: $?\"\n"
      "kill -0 $1 && echo 'host0: lives'; kill $1; wait $1; :");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "host host1 off; 1 program killed\nhost1: 137\nhost0: lives\n") << outcome.err;
  EXPECT_EQ(faults(), "host host1: off\n");
  Outcome refused = softib({"run", "host1", "--", "true"});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_EQ(refused.err, "softib: host1 is off; 'softib host host1 on' switches it on\n");
  EXPECT_EQ(softib({"run", "host0", "--", "true"}).exit_code, 0);
  EXPECT_EQ(softib({"host", "host1", "reboot", "--after", "1"}).out, "host host1 reboot --after 1ms\n");
}

TEST_F(FaultCommands, AScenarioAndItsUndoing) {
  up();
  write("s.yaml",
        "scenario: short\nsteps:\n  - {at: 0s, do: [link sw0:1 down, link sw0:1 width 1x]}\n"
        "  - {at: 10ms, do: counters any sw0 stuck}\n  - {at: 20ms, do: switch sw0 off}\n");
  Outcome outcome = softib({"scenario", file("s.yaml"), "--seed", "3"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("scenario short, seed 3\n    0.000 s  link sw0:1 down\n"));
  EXPECT_THAT(faults(), HasSubstr("switch sw0: off\n"));
  Outcome again = softib({"scenario", file("s.yaml"), "--seed", "3", "--undo"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("undo: switch sw0 on\n"));
  EXPECT_EQ(faults(), "");
}

// At the end that was asked for, not at the last fault; and what was mended in time is not mended again.
TEST_F(FaultCommands, AScenarioLastsUntilItsEnd) {
  up();
  write(
      "s.yaml",
      "until: 600ms\nsteps:\n  - {at: 0s, do: link sw0:1 down, for: 100ms}\n  - {at: 0s, do: link sw0:2 down}\n"
      "  - {at: 350ms, do: link swap sw0:1 sw0:2, for: 50ms}\n  - {at: 300ms, do: counters sw0:1 stuck, for: 10ms}\n");
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome = softib({"scenario", file("s.yaml"), "--undo"});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(600));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("undo: link sw0:2 reset\n"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("so already")));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("undo: counters")));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("undo: link swap")));
  EXPECT_EQ(faults(), "");
}

// Programs that have the fabric open when it ends are named.
TEST_F(FaultCommands, DownNamesWhoStillUsesTheFabric) {
  up();
  Outcome outcome = shell(
      "\"$SOFTIB\" run host0 -- ibv_asyncwatch >/dev/null 2>&1 & pid=$!\n"
      "until \"$SOFTIB\" status --json | grep -q '\"slot\"'; do sleep 0.02; done\n"
      "\"$SOFTIB\" down | sed \"s/$pid/PID/\"; kill $pid; wait $pid; :");
  EXPECT_EQ(outcome.out, "fabric 'default' is down; still used by ibv_asyncwatch (process PID)\n");
}

TEST_F(FaultCommands, AScenarioIsInterrupted) {
  up();
  write("s.yaml", "steps:\n  - {at: 0s, do: link sw0:1 down}\n  - {every: 1s, do: link any sw0 flap}\n");
  Outcome outcome = shell("\"$SOFTIB\" scenario " + file("s.yaml") + " --undo > " + file("log") +
                          " & until grep -q down " + file("log") + "; do sleep 0.02; done; kill $!; wait $!");
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM);
  EXPECT_THAT(shell("cat " + file("log")).out, HasSubstr("undo: link sw0:1 reset\n"));
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultCommands, ADryRunChangesNothing) {
  up();
  write("s.yaml", "seed: 4\nsteps:\n  - {every: 100ms..1s, do: link any sw0 down}\n");
  EXPECT_EQ(softib({"scenario", file("s.yaml"), "--dry-run"}).exit_code, 2);
  Outcome first = softib({"scenario", file("s.yaml"), "--dry-run", "--until", "1min"});
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.out, StartsWith("scenario, seed 4\n"));
  EXPECT_GT(std::count(first.out.begin(), first.out.end(), '\n'), 60);
  EXPECT_EQ(softib({"scenario", file("s.yaml"), "--dry-run", "--until", "1min"}).out, first.out);
  EXPECT_NE(softib({"scenario", file("s.yaml"), "--dry-run", "--until", "1min", "--seed", "5"}).out, first.out);
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultCommands, ABadScenarioNamesItsLine) {
  up();
  write("s.yaml", "steps:\n  - {at: 0s, do: link sw0:1 down}\n  - {at: 1s, do: link sw7:1 down}\n");
  Outcome outcome = softib({"scenario", file("s.yaml")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "softib: " + file("s.yaml") + ":3: the fabric has no switch or host 'sw7'; did you mean 'sw0'?\n");
  EXPECT_EQ(faults(), "") << "none of it was done";
}

}  // namespace
}  // namespace softib::test
