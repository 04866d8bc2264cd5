#include "coll/tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softib::coll {
namespace {

using testing::HasSubstr;

Landscape one_host(u32 ranks) { return {.ranks = ranks, .hosts = {}, .between = Way::shm}; }

Landscape two_hosts(u32 each) {
  Landscape landscape{.ranks = 2 * each, .hosts = {}};
  for (u32 rank = 0; rank < 2 * each; ++rank) landscape.hosts.push_back(rank / each);
  return landscape;
}

AlgorithmRule rule(std::optional<Collective> collective, bool all_but, std::vector<Algorithm> algorithms) {
  return {collective, all_but, std::move(algorithms)};
}

TEST(Tuner, AlwaysChoosesWhatCanBe) {
  for (const Landscape& landscape : {one_host(1), one_host(2), one_host(7), two_hosts(1), two_hosts(4)}) {
    const Tuner tuner(landscape, {}, {});
    for (u8 collective = 0; collective < 9; ++collective)
      for (const bool equal : {true, false})
        for (u64 bytes = 0; bytes < u64{1} << 40; bytes = 3 * bytes + 1) {
          const Choice choice = tuner.choose({static_cast<Collective>(collective), bytes, true, equal});
          ASSERT_NE(choice.row, nullptr);
          EXPECT_EQ(static_cast<u8>(choice.row->collective), collective);
          EXPECT_TRUE(equal || choice.row->counts == Counts::any);
          EXPECT_GE(choice.lanes, choice.row->least_lanes);
          EXPECT_GE(choice.window, choice.row->least_lanes);
          EXPECT_LT(choice.lanes, 1000);
        }
  }
}

TEST(Tuner, ShortMessagesTakeFewRoundsAndLongOnesSendLittle) {
  const Tuner tuner(one_host(16), {}, {});
  const auto chosen = [&](Collective collective, u64 bytes) {
    return tuner.choose({collective, bytes}).row->algorithm;
  };
  EXPECT_NE(chosen(Collective::all_reduce, 8), Algorithm::ring);
  EXPECT_NE(chosen(Collective::all_reduce, u64{1} << 30), Algorithm::one_shot);
  EXPECT_NE(chosen(Collective::all_reduce, u64{1} << 30), Algorithm::recursive_doubling);
  EXPECT_EQ(chosen(Collective::all_to_all, 64), Algorithm::bruck);
  EXPECT_NE(chosen(Collective::all_to_all, u64{1} << 30), Algorithm::bruck);
  EXPECT_EQ(Tuner(two_hosts(8), {}, {}).choose({Collective::all_reduce, u64{1} << 30}).row->algorithm,
            Algorithm::hierarchical);
}

TEST(Tuner, TheNetworkCombinesForThoseWhoAskedForIt) {
  using Network = Landscape::Network;
  const Question sum{Collective::all_reduce, u64{1} << 30};
  const Question gather{Collective::all_gather, 1 << 20};
  Landscape landscape{.ranks = 64, .hosts = {}};
  for (u32 rank = 0; rank < 64; ++rank) landscape.hosts.push_back(rank);
  const std::vector<AlgorithmRule> rules{rule({}, false, {Algorithm::innetwork})};
  EXPECT_EQ(Tuner(landscape, rules, {}).choose(sum).by, Choice::By::model);
  EXPECT_NE(Tuner(landscape, rules, {}).choose(sum).row->algorithm, Algorithm::innetwork);
  landscape.network = Network::named;
  EXPECT_EQ(Tuner(landscape, rules, {}).choose(sum).row->algorithm, Algorithm::innetwork);
  EXPECT_NE(Tuner(landscape, rules, {}).choose(gather).row->algorithm, Algorithm::innetwork);
  EXPECT_NE(Tuner(landscape, {}, {}).choose(sum).row->algorithm, Algorithm::innetwork);
  landscape.network = Network::any;
  EXPECT_EQ(Tuner(landscape, {}, {}).choose({Collective::all_reduce, 64}).row->algorithm, Algorithm::innetwork);
  EXPECT_THAT(Tuner(landscape, {}, {}).explain(sum), HasSubstr("innetwork"));
}

TEST(Tuner, KnowsWhatCanNotBeHad) {
  Landscape landscape{.ranks = 2, .hosts = {0, 1}};
  landscape.network = Landscape::Network::named;
  const Question gather{Collective::all_gather, 1 << 20};
  const Question sum{Collective::all_reduce, 1 << 20};
  const Tuner network(landscape, {rule({}, false, {Algorithm::innetwork})}, {});
  EXPECT_EQ(network.unmet(gather), "innetwork");
  EXPECT_EQ(network.unmet(sum), "");
  const Tuner several(landscape, {rule({}, false, {Algorithm::innetwork, Algorithm::ring})}, {});
  EXPECT_EQ(several.unmet(gather), "");
  EXPECT_EQ(several.unmet({Collective::all_to_all, 8}), "innetwork,ring");
  EXPECT_EQ(Tuner(landscape, {rule({}, true, {Algorithm::ring})}, {}).unmet(gather), "");
  EXPECT_EQ(Tuner(landscape, {rule(Collective::all_reduce, false, {Algorithm::ring})}, {}).unmet(gather), "");
  landscape.network = Landscape::Network::none;
  EXPECT_EQ(Tuner(landscape, {rule({}, false, {Algorithm::innetwork})}, {}).unmet(gather), "");
}

TEST(Tuner, RulesOfTheUserComeFirst) {
  const Question long_sum{Collective::all_reduce, 1 << 20};
  const Question gather{Collective::gather, 1 << 20};
  const Tuner ring(one_host(4), {rule({}, false, {Algorithm::ring, Algorithm::chain})}, {});
  EXPECT_EQ(ring.choose(long_sum).row->algorithm, Algorithm::ring);
  EXPECT_EQ(ring.choose({Collective::broadcast, 8}).row->algorithm, Algorithm::chain);
  EXPECT_EQ(ring.choose(gather).by, Choice::By::model);  // which has neither
  EXPECT_THAT(ring.explain(long_sum), HasSubstr("(SOFTIB_ALGO)"));
  const Tuner special(
      one_host(4), {rule({}, false, {Algorithm::ring}), rule(Collective::all_reduce, false, {Algorithm::double_tree})},
      {});
  EXPECT_EQ(special.choose(long_sum).row->algorithm, Algorithm::double_tree);
  const Algorithm best = Tuner(one_host(4), {}, {}).choose(long_sum).row->algorithm;
  const Tuner without(one_host(4), {rule({}, true, {best})}, {});
  EXPECT_NE(without.choose(long_sum).row->algorithm, best);
  EXPECT_NE(without.digest(), special.digest());
}

TEST(TuningFile, TheFirstLineThatFitsHolds) {
  const auto lines = parse_tuning(
      "# measured\n"
      "all_reduce 4 1 8K one_shot 1   # short\n"
      "\n"
      "all_reduce * * 1M direct 16 2\n"
      "all_reduce 5 * * ring 3\n");
  ASSERT_TRUE(lines) << lines.error().text;
  const Tuner tuner(one_host(4), {}, *lines);
  EXPECT_EQ(tuner.choose({Collective::all_reduce, 8192}).row->algorithm, Algorithm::one_shot);
  const Choice direct = tuner.choose({Collective::all_reduce, 8193});
  EXPECT_EQ(direct.row->algorithm, Algorithm::direct);
  EXPECT_EQ(direct.lanes, 16);
  EXPECT_EQ(direct.window, 2);
  EXPECT_EQ(tuner.choose({Collective::all_reduce, 2 << 20}).by, Choice::By::model);
  EXPECT_EQ(Tuner(one_host(5), {}, *lines).choose({Collective::all_reduce, 2 << 20}).row->algorithm, Algorithm::ring);
  EXPECT_THAT(tuner.explain({Collective::all_reduce, 100}), HasSubstr("(SOFTIB_TUNING_FILE)"));
}

TEST(TuningFile, ErrorsNameTheLine) {
  const auto fault = [](const char* text) {
    const auto lines = parse_tuning(text);
    return lines ? std::string() : lines.error().text;
  };
  EXPECT_EQ(
      fault("\nall_reduce * * * ring\n"),
      "line 2: a line has 6 or 7 words: collective, ranks, hosts, up to, algorithm, lanes and, if need be, window");
  EXPECT_EQ(fault("allreduces * * * ring 1"), "line 1: no collective is called allreduces");
  EXPECT_EQ(fault("all_reduce x * * ring 1"), "line 1: x is no number of ranks");
  EXPECT_EQ(fault("all_reduce * -1 * ring 1"), "line 1: -1 is no number of hosts");
  EXPECT_EQ(fault("all_reduce * * 1X ring 1"), "line 1: 1X is no size");
  EXPECT_EQ(fault("all_reduce * * * bruck 1"),
            "line 1: all_reduce isn't done by bruck, but by ring, recursive_doubling, halving_doubling, double_tree, "
            "direct, one_shot, hierarchical, innetwork");
  EXPECT_EQ(fault("all_reduce * * * ring 0"), "line 1: lanes are numbers from 1 to 1000");
  EXPECT_EQ(fault("all_reduce * * * ring 1 1001"), "line 1: lanes are numbers from 1 to 1000");
  EXPECT_THAT(read_tuning_file("/nonexistent").error().text, HasSubstr("can't be read"));
}

}  // namespace
}  // namespace softib::coll
