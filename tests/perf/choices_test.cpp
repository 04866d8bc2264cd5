// What follows from measured times.
#include "perf/tune/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coll/environment.h"
#include "coll/tune/rules.h"
#include "perf/launch/plan.h"
#include "perf/tune/options.h"

namespace softib::perf::tune {
namespace {

const Way ring{"ring", 1, 4};
const Way direct{"direct", 2, 4};

Cell cell_of(u64 bytes, double ring_us, double direct_us) {
  const double ring_s = ring_us * 1e-6;
  return {bytes, ring, {{ring, {ring_s, 9 * ring_s, ring_s}}, {direct, {direct_us * 1e-6}}}};
}

TEST(TuneChoices, TheFastestIsTakenUnlessItIsNoise) {
  EXPECT_EQ(cell_of(8, 10, 5).best(), direct);
  EXPECT_EQ(cell_of(8, 5, 10).best(), ring);
  EXPECT_EQ(cell_of(8, 10, 9.8).best(), ring);
  EXPECT_EQ(cell_of(8, 10, 9.8).fastest(), direct);
  // A pass that was disturbed doesn't count, and neither does one that was lucky.
  EXPECT_DOUBLE_EQ(cell_of(8, 10, 5).time(ring), 10e-6);
  EXPECT_DOUBLE_EQ((Cell{8, ring, {{ring, {8, 2}}}}.time(ring)), 5);
}

TEST(TuneChoices, WhatIsWithinTheSpreadIsNoise) {
  const Cell steady{8, ring, {{ring, {10, 10.1, 9.9}}, {direct, {8, 8.1, 7.9}}}};
  EXPECT_NEAR(steady.spread(ring), 0.01, 1e-9);
  EXPECT_EQ(steady.best(), direct);
  const Cell restless{8, ring, {{ring, {10, 12, 8}}, {direct, {8, 8.1, 7.9}}}};
  EXPECT_NEAR(restless.spread(ring), 0.2, 1e-9);
  EXPECT_EQ(restless.fastest(), direct);
  EXPECT_EQ(restless.best(), ring);
  EXPECT_DOUBLE_EQ((Cell{8, ring, {{ring, {10}}}}.spread(ring)), 0);
}

TEST(TuneChoices, HopelessWaysAreMeasuredOnce) {
  EXPECT_TRUE(cell_of(8, 5, 50).is_out(direct));
  EXPECT_FALSE(cell_of(8, 5, 6).is_out(direct));
  EXPECT_FALSE(cell_of(8, 50, 5).is_out(ring)) << "what is chosen now is compared with";
  EXPECT_FALSE((Cell{8, ring, {}}.is_out(direct)));
}

// The library reads what is written, and chooses by it.
TEST(TuneChoices, LinesAreThoseOfTuningFiles) {
  const Sweep sweep{"all_reduce",
                    {cell_of(64, 1, 5), cell_of(1024, 2, 5), cell_of(16384, 10, 5), cell_of(262144, 99, 50)}};
  const auto lines = coll::parse_tuning(tuning_lines(sweep, 4, 2));
  ASSERT_TRUE(lines) << lines.error().text;
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_EQ(lines->at(0).algorithm, coll::Algorithm::ring);
  EXPECT_EQ(lines->at(0).up_to, 4096U);
  EXPECT_EQ(lines->at(0).ranks, 4U);
  EXPECT_EQ(lines->at(0).hosts, 2U);
  EXPECT_EQ(lines->at(1).algorithm, coll::Algorithm::direct);
  EXPECT_EQ(lines->at(1).lanes, 2U);
  EXPECT_FALSE(lines->at(1).up_to);
}

TEST(TuneChoices, ChangesAreTold) {
  const std::vector<Sweep> sweeps{{"all_reduce", {cell_of(64, 1, 5), cell_of(1024, 10, 5)}}};
  EXPECT_THAT(text_of_changes(sweeps, "model"),
              testing::ContainsRegex("all_reduce +1K  direct, 2 lanes.* 5.0 us, once .* 10.0 us .- 0 % .*-50 %"));
  EXPECT_THAT(text_of_changes(sweeps, "model"), testing::HasSubstr("1 of 2 choices"));
}

// Here, as this test has the library.
TEST(Launcher, TellsOtherHostsAllSettingsOfTheLibrary) {
  for (const coll::Variable& variable : coll::variables()) {
    const std::string entry = variable.name + std::string("=1");
    const std::vector<const char*> environment{entry.c_str(), nullptr};
    const bool stays = entry == "SOFTIB_HOSTID=1" || entry == "SOFTIB_COMM_ID=1";
    EXPECT_EQ(shared_variables(environment.data()).empty(), stays) << entry;
  }
}

TEST(TuneChoices, SizesAreWrittenShort) {
  EXPECT_EQ(size_word(1000), "1000");
  EXPECT_EQ(size_word(65536), "64K");
  EXPECT_EQ(size_word(u64{16} << 20), "16M");
}

TuneLine parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "softib_coll_tune");
  return parse_tune_line(static_cast<int>(words.size()), words.data());
}

TEST(TuneChoices, TheCommandLineIsUnderstoodOrRefused) {
  const TuneLine good =
      parsed({"-np", "3", "-b", "64", "-e", "1M", "--collectives", "broadcast,all_to_all", "-o", "x"});
  ASSERT_EQ(good.kind, CommandLine::Kind::run) << good.text;
  EXPECT_EQ(good.options.run.processes, 3U);
  EXPECT_EQ(good.options.run.max_bytes, u64{1} << 20);
  EXPECT_THAT(good.options.collectives, testing::ElementsAre("broadcast", "all_to_all"));
  EXPECT_EQ(parsed({}).options.collectives.size(), 8U);
  EXPECT_EQ(parsed({"--help"}).kind, CommandLine::Kind::help);
  for (const auto& words : std::vector<std::vector<const char*>>{{"--collectives", "barrier"},
                                                                 {"-b", "2M", "-e", "1M"},
                                                                 {"-b", "0"},
                                                                 {"--check", "a", "-o", "b"},
                                                                 {"--agent", "ssh"},
                                                                 {"--hosts", ""},
                                                                 {"--what"}})
    EXPECT_EQ(parsed(words).kind, CommandLine::Kind::refused) << words.front();
}

}  // namespace
}  // namespace softib::perf::tune
