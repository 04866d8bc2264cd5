#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "coll/schedule/partners.h"
#include "trial.h"

namespace softib::coll::test {

class AlgorithmsTest : public testing::Test {
 protected:
  u64 seed = std::random_device()();
  testing::ScopedTrace trace{__FILE__, __LINE__, testing::Message() << "seed " << seed};
  std::mt19937_64 random{seed};

  static void expect_right(const Trial& trial) {
    for (const Sends sends : {Sends::any, Sends::synchronous}) {
      Stage stage(trial);
      const std::string fault = stage.run(sends);
      ASSERT_EQ(fault, "") << trial;
    }
  }
};

namespace {

// Ranks in order, on one host, all counts alike, one lane at least.
Trial plain(Collective collective, Algorithm algorithm, u32 ranks, u64 count) {
  const AlgorithmRow* row = find_algorithm(collective, algorithm);
  const std::size_t number = collective == Collective::all_to_all ? std::size_t{ranks} * ranks : ranks;
  return {row, ranks, std::vector<u64>(number, count)};
}

Outcome outcome_of(const Trial& trial) {
  Stage stage(trial);
  Outcome outcome;
  const std::string fault = stage.run(Sends::synchronous, &outcome);
  EXPECT_EQ(fault, "") << trial;
  return outcome;
}

u64 most(const std::vector<u64>& values) { return *std::max_element(values.begin(), values.end()); }

}  // namespace

TEST_F(AlgorithmsTest, EachOneOnEachNumberOfRanks) {
  for (const AlgorithmRow& row : algorithms())
    for (u32 ranks = 1; ranks <= 17; ++ranks)
      for (const u64 largest : {u64{1}, u64{ranks}, u64{60}})
        ASSERT_NO_FATAL_FAILURE(expect_right(any_trial(row, ranks, largest, random)));
}

TEST_F(AlgorithmsTest, ManyRanks) {
  for (const AlgorithmRow& row : algorithms())
    for (const u32 ranks : {24U, 32U, 33U, 64U})
      ASSERT_NO_FATAL_FAILURE(expect_right(any_trial(row, ranks, 8, random)));
}

TEST_F(AlgorithmsTest, AnyTrial) {
  for (int i = 0; i < 300; ++i) {
    const AlgorithmRow& row = algorithms()[random() % algorithms().size()];
    ASSERT_NO_FATAL_FAILURE(expect_right(any_trial(row, static_cast<u32>(1 + random() % 20), 60, random)));
  }
}

TEST_F(AlgorithmsTest, TableHasEachOnce) {
  for (const AlgorithmRow& row : algorithms()) EXPECT_EQ(find_algorithm(row.collective, row.algorithm), &row);
  EXPECT_EQ(find_algorithm(Collective::barrier, Algorithm::ring), nullptr);
}

// -- what the literature says of rounds and bytes ------------------------------------------------------------------

TEST_F(AlgorithmsTest, BandwidthOptimalOnesSendTheLeast) {
  struct Case {
    Collective collective;
    Algorithm algorithm;
    u64 passes;
  };
  for (const Case& its :
       {Case{Collective::all_reduce, Algorithm::ring, 2}, Case{Collective::all_reduce, Algorithm::direct, 2},
        Case{Collective::all_gather, Algorithm::ring, 1}, Case{Collective::all_gather, Algorithm::bruck, 1},
        Case{Collective::all_gather, Algorithm::direct, 1}, Case{Collective::reduce_scatter, Algorithm::ring, 1},
        Case{Collective::reduce_scatter, Algorithm::pairwise, 1},
        Case{Collective::reduce_scatter, Algorithm::direct, 1}, Case{Collective::all_to_all, Algorithm::pairwise, 1},
        Case{Collective::all_to_all, Algorithm::direct, 1}}) {
    for (u32 ranks = 2; ranks <= 16; ++ranks) {
      const u64 block = 6;
      const bool whole = its.collective == Collective::all_reduce;
      const Trial trial = plain(its.collective, its.algorithm, ranks, whole ? block * ranks : block);
      for (const u64 sent : outcome_of(trial).sent) EXPECT_EQ(sent, its.passes * (ranks - 1) * block) << trial;
    }
  }
}

TEST_F(AlgorithmsTest, HalvingAndDoublingSendTheLeastOnPowersOfTwo) {
  for (u32 ranks = 2; ranks <= 64; ranks *= 2) {
    const u64 block = 4;
    for (const u64 sent :
         outcome_of(plain(Collective::all_reduce, Algorithm::halving_doubling, ranks, block * ranks)).sent)
      EXPECT_EQ(sent, 2 * (ranks - 1) * block);
    for (const u64 sent :
         outcome_of(plain(Collective::reduce_scatter, Algorithm::recursive_halving, ranks, block)).sent)
      EXPECT_EQ(sent, (ranks - 1) * block);
    for (const u64 sent : outcome_of(plain(Collective::all_gather, Algorithm::recursive_doubling, ranks, block)).sent)
      EXPECT_EQ(sent, (ranks - 1) * block);
  }
}

TEST_F(AlgorithmsTest, RecursiveDoublingSendsAllEachRound) {
  for (u32 ranks = 2; ranks <= 32; ranks *= 2)
    for (const u64 sent : outcome_of(plain(Collective::all_reduce, Algorithm::recursive_doubling, ranks, 10)).sent)
      EXPECT_EQ(sent, 10 * log2_above(ranks));
}

// With two lanes no rank of the double tree sends more than twice the whole, and all together no more than in a ring.
TEST_F(AlgorithmsTest, DoubleTreeSharesTheWork) {
  for (u32 ranks = 2; ranks <= 64; ++ranks) {
    const Outcome outcome = outcome_of(plain(Collective::all_reduce, Algorithm::double_tree, ranks, 100));
    u64 all = 0;
    for (const u64 sent : outcome.sent) all += sent;
    EXPECT_EQ(all, 2 * (ranks - 1) * 100);
    EXPECT_LE(most(outcome.sent), 200U) << ranks;
    EXPECT_LE(outcome.hops, 2 * (log2_below(ranks) + 1)) << ranks;
  }
}

TEST_F(AlgorithmsTest, BruckAllToAllSendsAboutHalfEachRound) {
  for (u32 ranks = 2; ranks <= 33; ++ranks) {
    u64 blocks = 0;
    for (u32 places = 1; places < ranks; ++places) blocks += static_cast<u64>(std::popcount(places));
    for (const u64 sent : outcome_of(plain(Collective::all_to_all, Algorithm::bruck, ranks, 3)).sent)
      EXPECT_EQ(sent, 3 * blocks) << ranks;
  }
}

TEST_F(AlgorithmsTest, RoundsAreThoseOfTheLiterature) {
  using C = Collective;
  using A = Algorithm;
  for (const u32 ranks : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 12U, 15U, 16U, 17U, 33U}) {
    const u32 log = log2_above(ranks);
    const bool power = std::has_single_bit(ranks);
    const u32 folded = power ? log : log2_below(ranks) + 2;
    struct Row {
      C collective;
      A algorithm;
      u32 hops;
    };
    for (const Row& row : {Row{C::all_reduce, A::ring, 2 * (ranks - 1)},
                           Row{C::all_reduce, A::recursive_doubling, folded},
                           Row{C::all_reduce, A::halving_doubling, folded + log2_below(ranks)},
                           Row{C::all_reduce, A::direct, 2},
                           Row{C::all_reduce, A::one_shot, 1},
                           Row{C::all_gather, A::ring, ranks - 1},
                           Row{C::all_gather, A::recursive_doubling, folded},
                           Row{C::all_gather, A::bruck, log},
                           Row{C::all_gather, A::direct, 1},
                           Row{C::reduce_scatter, A::ring, ranks - 1},
                           Row{C::reduce_scatter, A::recursive_halving, folded},
                           Row{C::reduce_scatter, A::pairwise, ranks - 1},
                           Row{C::reduce_scatter, A::direct, 1},
                           Row{C::broadcast, A::chain, ranks - 1},
                           Row{C::broadcast, A::direct, 1},
                           Row{C::reduce, A::chain, ranks - 1},
                           Row{C::reduce, A::direct, 1},
                           Row{C::reduce, A::reduce_scatter_gather, ranks},
                           Row{C::gather, A::direct, 1},
                           Row{C::scatter, A::direct, 1},
                           Row{C::all_to_all, A::pairwise, ranks - 1},
                           Row{C::all_to_all, A::bruck, log},
                           Row{C::all_to_all, A::direct, 1},
                           Row{C::barrier, A::dissemination, log}}) {
      const Trial trial = plain(row.collective, row.algorithm, ranks, 2 * ranks);
      EXPECT_EQ(outcome_of(trial).hops, row.hops) << trial;
    }
    for (const Row& row : {Row{C::broadcast, A::binomial, log}, Row{C::reduce, A::binomial, log},
                           Row{C::gather, A::binomial, log}, Row{C::scatter, A::binomial, log}}) {
      const Trial trial = plain(row.collective, row.algorithm, ranks, 2);
      EXPECT_LE(outcome_of(trial).hops, row.hops) << trial;
    }
  }
}

// Between hosts goes what must. With L ranks on each of H hosts, each sends for all_reduce 2(H - 1)/H of its share of
// 1/L, and for the others one block to each other host.
TEST_F(AlgorithmsTest, HierarchicalSparesTheNetwork) {
  for (const u32 hosts : {2U, 4U, 8U})
    for (const u32 local : {1U, 2U, 4U})
      for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
        const bool whole = collective == Collective::all_reduce;
        Trial trial = plain(collective, Algorithm::hierarchical, hosts * local, whole ? hosts * local * 6 : 6);
        for (u32 rank = 0; rank < trial.ranks; ++rank) trial.hosts.push_back(rank / local);
        const Stage stage(trial);
        for (u32 rank = 0; rank < trial.ranks; ++rank) {
          u64 sent = 0;
          for (const Step& step : stage.ranks[rank].lanes[0].steps)
            if (step.kind == Kind::send && step.peer / local != rank / local) sent += step.from.count;
          EXPECT_EQ(sent, (whole ? 2 : 1) * (hosts - 1) * 6) << trial;
        }
      }
}

// -- determinism -----------------------------------------------------------------------------------------------------

namespace {

void set_doubles(Stage& stage, u64 seed) {
  std::mt19937_64 random(seed);
  for (Rank& rank : stage.ranks)
    for (u64& word : rank.memory.words)
      word = std::bit_cast<u64>(std::ldexp(static_cast<double>(random() % 1000003), static_cast<int>(random() % 40)));
}

std::vector<u64> output_of(const Rank& rank) {
  const auto begin = rank.memory.words.begin() + static_cast<std::ptrdiff_t>(rank.memory.output_at);
  return {begin, begin + static_cast<std::ptrdiff_t>(rank.memory.output_size)};
}

}  // namespace

// The same bits on every run whatever arrives first, and for all_reduce on every rank.
TEST_F(AlgorithmsTest, ResultsDependOnNothingButTheProblem) {
  for (const AlgorithmRow& row : algorithms()) {
    if (row.collective != Collective::all_reduce && row.collective != Collective::reduce_scatter) continue;
    for (const u32 ranks : {2U, 3U, 7U, 8U, 12U}) {
      Trial trial = any_trial(row, ranks, 50, random);
      trial.spread = false;
      std::vector<std::vector<u64>> first;
      for (int run = 0; run < 4; ++run) {
        Stage stage(trial);
        set_doubles(stage, trial.seed);
        ASSERT_EQ(simulate(stage.ranks, double_sum, Sends::any, random).error, "") << trial;
        std::vector<std::vector<u64>> outputs;
        for (const Rank& rank : stage.ranks) outputs.push_back(output_of(rank));
        if (run == 0) first = outputs;
        ASSERT_EQ(outputs, first) << trial;
        const bool alike = row.collective == Collective::all_reduce;
        for (const auto& output : outputs) ASSERT_TRUE(!alike || output == outputs[0]) << trial;
      }
    }
  }
}

// -- the simulator itself --------------------------------------------------------------------------------------------

namespace {

void remove_step(Schedule& schedule, std::size_t number) {
  schedule.steps.erase(schedule.steps.begin() + static_cast<std::ptrdiff_t>(number));
  for (u32& end : schedule.round_ends)
    if (end > number) --end;
}

// Whether the simulator finds fault with a trial whose schedules `spoil` has changed.
template <typename Spoil>
bool found(const Trial& trial, const Spoil& spoil) {
  Stage stage(trial);
  spoil(stage.ranks);
  return !stage.run(Sends::any).empty();
}

}  // namespace

TEST_F(AlgorithmsTest, SimulatorMissesEachStep) {
  for (const AlgorithmRow& row : algorithms()) {
    if (row.collective == Collective::barrier) continue;
    const Trial trial = plain(row.collective, row.algorithm, 5, 10);
    const Stage whole(trial);
    for (u32 rank = 0; rank < 5; ++rank)
      for (std::size_t step = 0; step < whole.ranks[rank].lanes[0].steps.size(); ++step)
        EXPECT_TRUE(found(trial, [&](std::vector<Rank>& ranks) { remove_step(ranks[rank].lanes[0], step); }))
            << trial << ": rank " << rank << " without step " << step;
  }
}

TEST_F(AlgorithmsTest, SimulatorSeesWrongPlacesAndLengths) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling, Algorithm::direct}) {
    const Trial trial = plain(Collective::all_reduce, algorithm, 4, 12);
    const std::size_t steps = Stage(trial).ranks[1].lanes[0].steps.size();
    for (std::size_t number = 0; number < steps; ++number) {
      const auto step_of = [number](std::vector<Rank>& ranks) -> Step& { return ranks[1].lanes[0].steps[number]; };
      EXPECT_TRUE(found(trial, [&](std::vector<Rank>& ranks) {
        Step& step = step_of(ranks);
        ++(step.kind == Kind::send ? step.from : step.to).offset;
      })) << number;
      EXPECT_TRUE(found(trial, [&](std::vector<Rank>& ranks) {
        Step& step = step_of(ranks);
        --(step.kind == Kind::send ? step.from : step.to).count;
      })) << number;
      const Kind kind = Stage(trial).ranks[1].lanes[0].steps[number].kind;
      if (kind != Kind::reduce && kind != Kind::receive_reduce) continue;
      EXPECT_TRUE(found(trial, [&](std::vector<Rank>& ranks) { step_of(ranks).complete ^= true; })) << number;
    }
  }
}

// Two rounds made one: steps get in each other's way.
TEST_F(AlgorithmsTest, SimulatorSeesRoundsThatDependOnEachOther) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::recursive_doubling, Algorithm::halving_doubling}) {
    const Trial trial = plain(Collective::all_reduce, algorithm, 8, 16);
    const std::size_t rounds = Stage(trial).ranks[3].lanes[0].rounds();
    for (std::size_t round = 0; round + 1 < rounds; ++round)
      EXPECT_TRUE(found(trial, [&](std::vector<Rank>& ranks) {
        auto& ends = ranks[3].lanes[0].round_ends;
        ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(round));
      })) << round;
  }
}

TEST_F(AlgorithmsTest, SimulatorSeesRanksThatWaitForEachOther) {
  std::vector<Rank> ranks(2);
  for (u32 rank = 0; rank < 2; ++rank) {
    Builder builder;
    builder.receive(1 - rank, {Buffer::output, 0, 1});
    builder.end_round();
    builder.send(1 - rank, {Buffer::input, 0, 1});
    ranks[rank].lanes.push_back(builder.finish());
    ranks[rank].memory = {{0, 0}, 0, 1, 1, 1};
  }
  EXPECT_EQ(faults_of(ranks), "");
  EXPECT_NE(simulate(ranks, word_sum, Sends::any, random).error, "");
}

// In place, one_shot writes its result where its own part lay, so it may not lend that part.
TEST_F(AlgorithmsTest, SimulatorSeesLentMemoryWritten) {
  Trial trial = plain(Collective::all_reduce, Algorithm::one_shot, 4, 6);
  trial.in_place = true;
  int times = 0;
  for (; trial.seed < 20; ++trial.seed)
    times += found(trial, [](std::vector<Rank>& ranks) {
      for (Rank& rank : ranks)
        for (Step& step : rank.lanes[0].steps) step.lend = step.kind != Kind::reduce;
    });
  EXPECT_GT(times, 15);
}

}  // namespace softib::coll::test
