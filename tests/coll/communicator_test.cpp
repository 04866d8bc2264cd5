// Communicators over memory whose timing is up to chance.
#include "coll/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "call_trial.h"
#include "world.h"

namespace softib::coll::test {
namespace {

u64 seed_of_test() {
  if (const char* text = std::getenv("SOFTIB_TEST_SEED")) return std::strtoull(text, nullptr, 0);
  return std::random_device{}() | u64{std::random_device{}()} << 32;
}

// SOFTIB_TEST_FULL: ten times as much, for a machine that has the time.
u32 effort() { return std::getenv("SOFTIB_TEST_FULL") != nullptr ? 10 : 1; }

// The variables of the process, for as long as the object lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// A tuning file of one line: so many lanes of one algorithm.
class OneWay {
 public:
  OneWay(const AlgorithmRow& row, u32 lanes, u32 window)
      : path_(testing::TempDir() + "softib-tuning-" + std::to_string(::getpid())),
        variable_("SOFTIB_TUNING_FILE", path_) {
    std::ofstream(path_) << name_of(row.collective) << " * * * " << name_of(row.algorithm) << " " << lanes << " "
                         << window << "\n";
  }
  ~OneWay() { ::unlink(path_.c_str()); }
  OneWay(const OneWay&) = delete;
  OneWay& operator=(const OneWay&) = delete;

 private:
  std::string path_;
  Variable variable_;
};

void run_trial(Communicator& communicator, const CallTrial& trial) {
  CallRank mine(trial, communicator.rank());
  const Started started = mine.start(communicator);
  ASSERT_TRUE(started) << trial << ": " << started.error().text;
  const Done done = communicator.wait(*started);
  ASSERT_TRUE(done) << trial << ": " << done.error().text;
  EXPECT_EQ(mine.fault(), "") << trial;
}

TEST(Communicator, EveryAlgorithmGivesWhatTheReferenceGives) {
  const u64 seed = seed_of_test();
  SCOPED_TRACE("SOFTIB_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const AlgorithmRow& row : algorithms())
    for (u32 ranks = 1; ranks <= 9; ++ranks) {
      const OneWay way(row, static_cast<u32>(1 + random() % 5), static_cast<u32>(1 + random() % 3));
      std::vector<u64> hosts(ranks);
      for (u64& host : hosts) host = random() % 3;
      World world(random(), hosts);
      std::vector<CallTrial> trials;
      for (u32 i = 0; i < 3 * effort(); ++i) trials.push_back(any_call(row.collective, ranks, 90, random));
      world.run(ranks, {}, [&](Communicator& communicator) {
        for (const CallTrial& trial : trials) run_trial(communicator, trial);
      });
      ASSERT_FALSE(HasFailure()) << name_of(row.collective) << " by " << name_of(row.algorithm);
    }
}

TEST(Communicator, EveryTypeAndOperatorGoThroughEveryReduction) {
  const u64 seed = seed_of_test();
  SCOPED_TRACE("SOFTIB_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  World world(random());
  std::vector<CallTrial> trials;
  for (const Collective collective : {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter})
    for (const TypeRow& type : type_table)
      for (u8 op = 0; op < op_names.size(); ++op) {
        trials.push_back(any_call(collective, 3, 40, random));
        trials.back().type = type.type;
        trials.back().op = static_cast<Op>(op);
      }
  world.run(3, {}, [&](Communicator& communicator) {
    for (const CallTrial& trial : trials) run_trial(communicator, trial);
  });
}

TEST(Communicator, ManyCollectivesAtOnceEndInAnyOrderOfWaiting) {
  const u64 seed = seed_of_test();
  SCOPED_TRACE("SOFTIB_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  World world(random());
  constexpr u32 ranks = 4;
  std::vector<CallTrial> trials;
  for (u32 i = 0; i < 30; ++i) trials.push_back(any_call(static_cast<Collective>(random() % 9), ranks, 200, random));
  world.run(ranks, {}, [&](Communicator& communicator) {
    std::vector<CallRank> mine;
    for (const CallTrial& trial : trials) mine.emplace_back(trial, communicator.rank());
    std::vector<Request> requests;
    for (CallRank& call : mine) {
      const Started started = call.start(communicator);
      ASSERT_TRUE(started) << started.error().text;
      requests.push_back(*started);
    }
    std::vector<std::size_t> order(trials.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::mt19937_64 mixed(seed + communicator.rank());
    std::shuffle(order.begin(), order.end(), mixed);
    for (const std::size_t i : order) {
      if (mixed() % 2 == 0) {
        ASSERT_TRUE(communicator.wait(requests[i]));
      } else {
        Outcome<bool> done = false;
        while (done && !*done) {
          done = communicator.test(requests[i]);
          std::this_thread::yield();
        }
        ASSERT_TRUE(done);
      }
      EXPECT_EQ(mine[i].fault(), "") << trials[i];
      // Asked again, it is still done.
      EXPECT_TRUE(communicator.wait(requests[i]));
    }
  });
}

// All-reduce of one word: 1, 2, ... in the order of ranks.
void expect_sum_of_ranks(Communicator& communicator) {
  const i32 mine = static_cast<i32>(communicator.rank()) + 1;
  i32 sum = 0;
  const Started started = communicator.start_all_reduce(&mine, &sum, 1, {DataType::int32});
  ASSERT_TRUE(started) << started.error().text;
  const Done done = communicator.wait(*started);
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_EQ(sum, static_cast<i32>(communicator.size() * (communicator.size() + 1) / 2));
}

// The last message of a collective may come in the moment before its receiver sleeps.
TEST(Communicator, WhatComesBeforeTheSleepIsSeen) {
  for (const std::vector<u64>& hosts : {std::vector<u64>{0, 0}, std::vector<u64>{0, 1}}) {
    World world(seed_of_test(), hosts);
    const Variable way("SOFTIB_ALGO", hosts[1] == 0 ? "direct" : "innetwork");
    Config config;
    config.timeout = std::chrono::seconds(20);
    world.run(2, config, [&](Communicator& communicator) {
      for (u32 i = 0; i < 12; ++i) {
        if (communicator.rank() == i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        i32 number = 1;
        const Started started = communicator.start_all_reduce(&number, &number, 1, {DataType::int32, Op::sum});
        ASSERT_TRUE(started);
        const Done done = communicator.wait(*started);
        ASSERT_TRUE(done) << done.error().text;
        EXPECT_EQ(number, 2);
      }
    });
  }
}

TEST(Communicator, TwoOfThemDoNotMixUp) {
  World world(seed_of_test());
  const UniqueId ids[]{world.new_id(), world.new_id()};
  const Ground ground = world.ground();
  World::run_threads(3, [&](u32 rank) {
    const auto first = Communicator::create_on(ground, ids[0], 3, rank);
    const auto second = Communicator::create_on(ground, ids[1], 3, 2 - rank);
    ASSERT_TRUE(first && second);
    const i32 mine = static_cast<i32>(rank);
    i32 sums[2]{};
    const Started a = (*first)->start_all_reduce(&mine, &sums[0], 1, {DataType::int32, Op::sum});
    const Started b = (*second)->start_all_reduce(&mine, &sums[1], 1, {DataType::int32, Op::max});
    ASSERT_TRUE(a && b);
    ASSERT_TRUE((*second)->wait(*b));
    ASSERT_TRUE((*first)->wait(*a));
    EXPECT_EQ(sums[0], 3);
    EXPECT_EQ(sums[1], 2);
  });
}

TEST(Communicator, SplitsByColorInTheOrderOfKeys) {
  World world(seed_of_test());
  world.run(7, {}, [&](Communicator& whole) {
    const u32 rank = whole.rank();
    const auto part = whole.split(rank == 6 ? -1 : static_cast<i32>(rank % 2), -static_cast<i32>(rank));
    ASSERT_TRUE(part) << part.error().text;
    expect_sum_of_ranks(whole);
    if (rank == 6) {
      EXPECT_EQ(*part, nullptr);
      return;
    }
    EXPECT_EQ((*part)->size(), 3);
    EXPECT_EQ((*part)->rank(), 2 - rank / 2);
    expect_sum_of_ranks(**part);
  });
}

TEST(Communicator, MessagesOfOneCallAreUnderWayAtOnce) {
  World world(seed_of_test());
  world.run(5, {}, [](Communicator& communicator) {
    const u32 ranks = communicator.size();
    std::vector<u64> out(ranks);
    std::vector<u64> in(ranks);
    std::vector<PointToPoint> messages;
    for (u32 peer = 0; peer < ranks; ++peer) {
      out[peer] = communicator.rank() * 100 + peer;
      messages.push_back({PointToPoint::Kind::send, peer, &out[peer], 8});
      messages.push_back({PointToPoint::Kind::receive, peer, &in[peer], 8});
    }
    for (u32 i = 0; i < 20; ++i) {
      const Started started = communicator.start_messages(messages);
      ASSERT_TRUE(started) << started.error().text;
      ASSERT_TRUE(communicator.wait(*started));
      for (u32 peer = 0; peer < ranks; ++peer) EXPECT_EQ(in[peer], peer * 100 + communicator.rank());
    }
  });
}

TEST(Communicator, OnlyThoseWhoTakePartCallForMessages) {
  World world(seed_of_test());
  world.run(3, {}, [](Communicator& communicator) {
    u64 word = communicator.rank();
    std::vector<PointToPoint> messages;
    if (communicator.rank() == 2) messages.push_back({PointToPoint::Kind::send, 0, &word, 8});
    if (communicator.rank() == 0) messages.push_back({PointToPoint::Kind::receive, 2, &word, 8});
    if (!messages.empty()) {
      const Started started = communicator.start_messages(messages);
      ASSERT_TRUE(started);
      ASSERT_TRUE(communicator.wait(*started));
    }
    EXPECT_EQ(word, communicator.rank() == 0 ? 2 : communicator.rank());
    expect_sum_of_ranks(communicator);
  });
}

TEST(Communicator, ResultsHaveTheSameBitsUnderAnyTiming) {
  const u64 seed = seed_of_test();
  SCOPED_TRACE("SOFTIB_TEST_SEED=" + std::to_string(seed));
  constexpr u32 ranks = 6;
  constexpr u64 count = 5000;
  for (const AlgorithmRow& row : algorithms()) {
    if (row.collective != Collective::all_reduce) continue;
    const OneWay way(row, 3, 2);
    std::vector<std::vector<float>> results;
    for (u32 time = 0; time < 3; ++time) {
      World world(seed + time, {0, 0, 1, 1, 2, 2});
      std::vector<std::vector<float>> out(ranks, std::vector<float>(count));
      world.run(ranks, {}, [&](Communicator& communicator) {
        std::mt19937 random(communicator.rank());
        std::vector<float>& mine = out[communicator.rank()];
        for (float& value : mine) value = std::uniform_real_distribution<float>(-1, 1)(random);
        const Started started = communicator.start_all_reduce(mine.data(), mine.data(), count, {});
        ASSERT_TRUE(started && communicator.wait(*started));
      });
      results.insert(results.end(), out.begin(), out.end());
    }
    for (const auto& result : results)
      EXPECT_EQ(std::memcmp(result.data(), results[0].data(), count * sizeof(float)), 0) << name_of(row.algorithm);
  }
}

// Whether a rank works in place is its own affair.
TEST(Communicator, SomeRanksInPlaceAndSomeNot) {
  for (const AlgorithmRow& row : algorithms()) {
    if (row.collective != Collective::all_reduce) continue;
    const OneWay way(row, 2, 2);
    World world(seed_of_test(), {0, 0, 1, 1});
    world.run(4, {}, [](Communicator& communicator) {
      std::vector<i32> in(100, static_cast<i32>(communicator.rank()));
      std::vector<i32> out(100);
      i32* result = communicator.rank() % 2 == 0 ? in.data() : out.data();
      for (u32 i = 0; i < 5; ++i) {
        std::fill(in.begin(), in.end(), static_cast<i32>(communicator.rank()));
        const Started started = communicator.start_all_reduce(in.data(), result, 100, {DataType::int32});
        ASSERT_TRUE(started && communicator.wait(*started));
        ASSERT_EQ(result[99], 6);
      }
    });
  }
}

TEST(Communicator, MisuseIsRefusedWithTheReason) {
  World world(seed_of_test());
  world.run(2, {}, [](Communicator& communicator) {
    std::vector<float> memory(64);
    float* at = memory.data();
    const Reduction sum{};
    const u64 three[]{1, 1, 1};
    const u64 two[]{1, 1};
    const auto text_of = [](const Started& started) { return started ? std::string() : started.error().text; };
    EXPECT_EQ(text_of(communicator.start_all_reduce(nullptr, at, 1, sum)), "all_reduce: the input is a null pointer");
    EXPECT_EQ(text_of(communicator.start_all_reduce(at, nullptr, 1, sum)), "all_reduce: the output is a null pointer");
    EXPECT_EQ(text_of(communicator.start_all_reduce(at, at + 1, 2, sum)),
              "all_reduce: input and output overlap, but not as they do in place");
    EXPECT_EQ(text_of(communicator.start_all_gather(at, at, 2, DataType::float32)),
              communicator.rank() == 0 ? "" : "all_gather: input and output overlap, but not as they do in place");
    EXPECT_EQ(text_of(communicator.start_broadcast(at, at, 1, DataType::float32, 2)), "broadcast: root 2 of 2 ranks");
    EXPECT_EQ(text_of(communicator.start_all_gather_v(at, at + 8, three, DataType::float32)),
              "all_gather: 3 counts for 2 ranks");
    EXPECT_EQ(text_of(communicator.start_all_reduce(at, at, ~u64{0} / 2, sum)),
              "all_reduce: more than fits into memory");
    EXPECT_EQ(text_of(communicator.start_all_reduce(at, at, 1, {DataType::int32, Op::premul_sum})),
              "all_reduce: the factor is float, the elements are int32");
    const u64 same[]{0, 0};
    EXPECT_EQ(text_of(communicator.start_all_to_all_v(at, {two, same}, at + 8, {two, same}, DataType::float32)),
              "all_to_all: received parts overlap each other");
    const PointToPoint to_nobody{PointToPoint::Kind::send, 5, at, 4};
    EXPECT_EQ(text_of(communicator.start_messages({&to_nobody, 1})), "a message for rank 5 of 2");
    const PointToPoint to_me{PointToPoint::Kind::send, communicator.rank(), at, 4};
    EXPECT_EQ(text_of(communicator.start_messages({&to_me, 1})),
              "a rank's messages to itself need a receive of the same size in the same call");
    EXPECT_EQ(communicator.plan("all_reduc", 8), "no collective is called all_reduc");
  });
}

TEST(Communicator, ChecksTellOfCallsThatDoNotFit) {
  const Variable checks("SOFTIB_CHECKS", "1");
  World world(seed_of_test());
  world.run(3, {}, [](Communicator& communicator) {
    expect_sum_of_ranks(communicator);
    std::vector<float> memory(8);
    const u64 count = communicator.rank() == 1 ? 4 : 8;
    const Started started = communicator.start_all_reduce(memory.data(), memory.data(), count, {});
    ASSERT_TRUE(started);
    const Done done = communicator.wait(*started);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().text, testing::ContainsRegex("calls all_reduce of [48] float, sum where rank"));
    EXPECT_TRUE(communicator.async_error());
    EXPECT_FALSE(communicator.start_barrier());
  });
}

TEST(Communicator, OtherSizesAreAnErrorAndWriteNothing) {
  World world(seed_of_test());
  Config config;
  config.timeout = std::chrono::milliseconds(300);
  world.run(2, config, [](Communicator& communicator) {
    std::vector<u8> memory(64, 7);
    const u64 count = communicator.rank() == 0 ? 48 : 32;
    const Started started = communicator.start_broadcast(memory.data(), memory.data(), count, DataType::uint8, 0);
    ASSERT_TRUE(started);
    // The root may have done its part; then the next collective finds the other one gone.
    Done done = communicator.wait(*started);
    if (done) {
      const Started next = communicator.start_barrier();
      done = next ? communicator.wait(*next) : Done(tl::unexpected(next.error()));
    }
    EXPECT_FALSE(done);
    EXPECT_EQ(memory, std::vector<u8>(64, 7));
  });
}

// Of a rank that takes no part in what the others do.
void see_the_end(Communicator& communicator) {
  while (!communicator.async_error()) communicator.progress();
}

TEST(Communicator, AbortFromAnotherThreadEndsTheWait) {
  World world(seed_of_test());
  world.run(3, {}, [](Communicator& communicator) {
    if (communicator.rank() == 2) {  // never comes, but sees the end
      see_the_end(communicator);
      return;
    }
    std::thread aborting;
    if (communicator.rank() == 0)
      aborting = std::thread([&communicator] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        communicator.abort("enough");
      });
    const Started started = communicator.start_barrier();
    ASSERT_TRUE(started);
    const Done done = communicator.wait(*started);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().text,
                testing::MatchesRegex("rank 0 on host0 .process .*aborted the communicator: enough.*"));
    if (aborting.joinable()) aborting.join();
  });
}

// The innocent wait for each other, in a chain that ends at the rank that never calls.
TEST(Communicator, TimeoutNamesTheRankThatHangs) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::double_tree, Algorithm::halving_doubling}) {
    const OneWay way(*find_algorithm(Collective::all_reduce, algorithm), 2, 2);
    World world(seed_of_test());
    Config config;
    config.timeout = std::chrono::milliseconds(200);
    world.run(5, config, [](Communicator& communicator) {
      std::vector<float> memory(100);
      if (communicator.rank() == 3) {
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        see_the_end(communicator);
        EXPECT_THAT(communicator.async_error()->text, testing::HasSubstr("rank 3 on host0"));
        return;
      }
      const Started started = communicator.start_all_reduce(memory.data(), memory.data(), 100, {});
      ASSERT_TRUE(started);
      const Done done = communicator.wait(*started);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, Code::remote_error);
      EXPECT_THAT(done.error().text, testing::MatchesRegex("nothing has moved for .* s: rank 3 on host0 .process "
                                                           ".*. takes no part while rank . .* waits in all_reduce.*"));
    });
  }
}

// What rank 0 is told when the receives that it has begun don't end.
std::string end_of_receives(const std::function<void(Communicator&)>& begin, bool other_waits) {
  World world(seed_of_test());
  Config config;
  // Who waits itself is asked, and has a quarter of it for its answer.
  config.timeout = std::chrono::milliseconds(other_waits ? 3000 : 500);
  std::string text;
  world.run(3, config, [&](Communicator& communicator) {
    u64 word = 0;
    if (communicator.rank() == 1 && other_waits) {
      const PointToPoint message{PointToPoint::Kind::receive, 0, &word, 8};
      ASSERT_TRUE(communicator.start_messages({&message, 1}));
    }
    if (communicator.rank() != 0) return see_the_end(communicator);
    begin(communicator);
    see_the_end(communicator);
    text = communicator.async_error()->text;
  });
  return text;
}

TEST(Communicator, MessagesThatNobodyWantsBlameNobody) {
  std::array<u64, 3> words{};
  const auto receive = [&words](Communicator& communicator, u32 from) {
    const PointToPoint message{PointToPoint::Kind::receive, from, &words[from], 8};
    const Started started = communicator.start_messages({&message, 1});
    EXPECT_TRUE(started);
    EXPECT_EQ(communicator.awaited_by(*started), std::vector<u32>{from});
    return *started;
  };
  const auto unwanted = [&](Communicator& communicator) {
    communicator.set_wanted(receive(communicator, 2), false);
    receive(communicator, 1);
  };
  EXPECT_THAT(end_of_receives(unwanted, false), testing::ContainsRegex(": rank 1 on host0 [^:]* takes no part"));
  const auto wanted_again = [&](Communicator& communicator) {
    const Request second = receive(communicator, 2);
    communicator.set_wanted(second, false);
    communicator.set_wanted(second, true);
  };
  EXPECT_THAT(end_of_receives(wanted_again, false), testing::ContainsRegex(": rank 2 on host0 [^:]* takes no part"));
}

// Any of them may be what is missing, so one that waits itself doesn't hide the other.
TEST(Communicator, AllMessagesThatAreWaitedForCount) {
  std::array<u64, 3> words{};
  const auto both = [&words](Communicator& communicator) {
    for (const u32 from : {1U, 2U}) {
      const PointToPoint message{PointToPoint::Kind::receive, from, &words[from], 8};
      EXPECT_TRUE(communicator.start_messages({&message, 1}));
    }
  };
  EXPECT_THAT(end_of_receives(both, true), testing::ContainsRegex(": rank 2 on host0 [^:]* takes no part"));
  EXPECT_THAT(end_of_receives(both, false), testing::ContainsRegex(": rank 1 on .*, rank 2 on .* take no part"));
}

TEST(Communicator, RanksThatCallDifferentThingsAreToldSo) {
  World world(seed_of_test());
  Config config;
  config.timeout = std::chrono::milliseconds(200);
  world.run(2, config, [](Communicator& communicator) {
    u64 word = 0;
    const PointToPoint message{PointToPoint::Kind::receive, 1 - communicator.rank(), &word, 8};
    const Started started = communicator.start_messages({&message, 1});
    ASSERT_TRUE(started);
    const Done done = communicator.wait(*started);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().text, testing::HasSubstr("ranks wait for each other"));
  });
}

TEST(Communicator, TheSurvivorsMakeANewOne) {
  World world(seed_of_test());
  const UniqueId id = world.new_id();
  const Ground ground = world.ground();
  std::barrier everybody_has_the_sum(5);
  World::run_threads(5, [&](u32 rank) {
    Config config;
    config.timeout = std::chrono::seconds(20);
    auto made = Communicator::create_on(ground, id, 5, rank, config);
    ASSERT_TRUE(made);
    Communicator& communicator = **made;
    expect_sum_of_ranks(communicator);
    // An abort ends what the others have not ended yet, be their data there or not.
    everybody_has_the_sum.arrive_and_wait();
    if (rank == 1 || rank == 4) {
      communicator.abort("has had enough");
      return;
    }
    const Started started = communicator.start_barrier();
    const Done done = started ? communicator.wait(*started) : Done(tl::unexpected(started.error()));
    ASSERT_FALSE(done);
    // Nobody told of it: those who go know it, the others hear it.
    const u32 gone[]{1, 4};
    const auto smaller = communicator.shrink(rank == 0 ? std::span<const u32>(gone) : std::span<const u32>{});
    ASSERT_TRUE(smaller) << smaller.error().text;
    EXPECT_EQ((*smaller)->size(), 3);
    EXPECT_EQ((*smaller)->rank(), rank == 0 ? 0 : rank - 1);
    expect_sum_of_ranks(**smaller);
  });
}

TEST(Communicator, AllocatedMemoryIsForCollectives) {
  World world(seed_of_test());
  world.run(2, {}, [](Communicator& communicator) {
    const Outcome<void*> memory = communicator.allocate(1 << 20);
    ASSERT_TRUE(memory);
    EXPECT_EQ(reinterpret_cast<u64>(*memory) % 4096, 0);
    auto* words = static_cast<i32*>(*memory);
    words[0] = 5;
    const Started started = communicator.start_all_reduce(words, words, 1 << 18, {DataType::int32});
    ASSERT_TRUE(started && communicator.wait(*started));
    EXPECT_EQ(words[0], 10);
    communicator.free_memory(*memory);
  });
}

// Moves only while its caller is about to sleep, as transports may.
class MovesWhenArmed final : public Transport {
 public:
  explicit MovesWhenArmed(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const char* name() const override { return inner_->name(); }
  void send(Send& send) override { inner_->send(send); }
  void receive(Receive& receive) override { inner_->receive(receive); }
  void release(Receive& receive) override { inner_->release(receive); }
  bool progress() override { return false; }
  void give_up(u32 peer) override { inner_->give_up(peer); }
  [[nodiscard]] std::optional<PeerFailure> broken() override { return inner_->broken(); }
  [[nodiscard]] bool arm() override { return !inner_->progress(); }

 private:
  std::unique_ptr<Transport> inner_;
};

TEST(Communicator, WhatEndsWhileARankLiesDownToSleepIsSeen) {
  World world(seed_of_test());
  Ground ground = world.ground();
  ground.connect = [connect = ground.connect](Bootstrap& bootstrap, const Environment& environment) {
    Outcome<Links> links = connect(bootstrap, environment);
    for (auto& transport : links->routes.transports) transport = std::make_unique<MovesWhenArmed>(std::move(transport));
    return links;
  };
  const UniqueId id = world.new_id();
  World::run_threads(3, [&](u32 rank) {
    const auto communicator = Communicator::create_on(ground, id, 3, rank, {std::chrono::seconds(10), "sleepers"});
    ASSERT_TRUE(communicator) << communicator.error().text;
    for (int times = 0; times < 5; ++times) {
      i32 sum = static_cast<i32>(rank);
      const Started started = (*communicator)->start_all_reduce(&sum, &sum, 1, {DataType::int32});
      ASSERT_TRUE(started) << started.error().text;
      const Done done = (*communicator)->wait(*started);
      ASSERT_TRUE(done) << done.error().text;
      EXPECT_EQ(sum, 3);
    }
  });
}

// Its first receive fails at once; why that is it tells after some turns.
class TellsLater final : public Transport {
 public:
  explicit TellsLater(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const char* name() const override { return inner_->name(); }
  void send(Send& send) override { inner_->send(send); }
  void receive(Receive& receive) override {
    if (failed_peer_) return inner_->receive(receive);
    failed_peer_ = receive.peer;
    receive.state = State::failed;
  }
  void release(Receive& receive) override { inner_->release(receive); }
  bool progress() override {
    if (failed_peer_) ++turns_;
    return inner_->progress();
  }
  void give_up(u32 peer) override { inner_->give_up(peer); }
  [[nodiscard]] std::optional<PeerFailure> broken() override {
    if (turns_ < 3 || std::exchange(told_, true)) return std::nullopt;
    return PeerFailure{*failed_peer_, {Code::invalid_usage, "16 bytes where 8 were expected"}};
  }

 private:
  std::unique_ptr<Transport> inner_;
  std::optional<u32> failed_peer_;
  u32 turns_ = 0;
  bool told_ = false;
};

TEST(Communicator, WhyAMessageFailedIsWaitedFor) {
  World world(seed_of_test());
  const UniqueId id = world.new_id();
  World::run_threads(2, [&](u32 rank) {
    Ground ground = world.ground();
    ground.connect = [connect = ground.connect, rank](Bootstrap& bootstrap, const Environment& environment) {
      Outcome<Links> links = connect(bootstrap, environment);
      for (auto& transport : links->routes.transports)
        if (rank == 0) transport = std::make_unique<TellsLater>(std::move(transport));
      return links;
    };
    const auto communicator = Communicator::create_on(ground, id, 2, rank, {std::chrono::seconds(10), "patient"});
    ASSERT_TRUE(communicator) << communicator.error().text;
    i32 sum = 1;
    const Started started = (*communicator)->start_all_reduce(&sum, &sum, 1, {DataType::int32});
    ASSERT_TRUE(started) << started.error().text;
    const Done done = (*communicator)->wait(*started);
    // Without a word from rank 0's transport rank 1 may have all it needs.
    if (rank == 1 && done) return;
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().text.find("16 bytes where 8 were expected"), std::string::npos) << done.error().text;
  });
}

// What a rank's transport was told of its runs' buffers.
struct Loans {
  std::multiset<std::pair<const std::byte*, u64>> out;
  u32 borrowed = 0;
  std::map<const std::byte*, u64> hinted;
  u32 strangers = 0;  // long messages outside of all of that
};

class NotesLoans final : public Transport {
 public:
  NotesLoans(std::unique_ptr<Transport> inner, Loans& loans) : inner_(std::move(inner)), loans_(loans) {}
  [[nodiscard]] const char* name() const override { return inner_->name(); }
  void send(Send& send) override {
    note(send.memory, send.bytes);
    inner_->send(send);
  }
  void receive(Receive& receive) override {
    if (receive.sink == nullptr) note(receive.memory, receive.bytes);
    inner_->receive(receive);
  }
  void release(Receive& receive) override { inner_->release(receive); }
  bool progress() override { return inner_->progress(); }
  void give_up(u32 peer) override { inner_->give_up(peer); }
  [[nodiscard]] std::optional<PeerFailure> broken() override { return inner_->broken(); }
  [[nodiscard]] bool arm() override { return inner_->arm(); }
  void borrow_memory(const void* memory, u64 bytes) override {
    loans_.out.emplace(static_cast<const std::byte*>(memory), bytes);
    ++loans_.borrowed;
  }
  void give_memory_back(const void* memory, u64 bytes) override {
    const auto loan = loans_.out.find({static_cast<const std::byte*>(memory), bytes});
    ASSERT_NE(loan, loans_.out.end());
    loans_.out.erase(loan);
  }

  void hint_memory(const void* memory, u64 bytes) override {
    loans_.hinted[static_cast<const std::byte*>(memory)] = bytes;
  }
  void forget_memory(const void* memory, u64 bytes) override {
    EXPECT_EQ(loans_.hinted[static_cast<const std::byte*>(memory)], bytes);
    loans_.hinted.erase(static_cast<const std::byte*>(memory));
  }

 private:
  void note(const void* memory, u64 bytes) {
    const auto* begin = static_cast<const std::byte*>(memory);
    const auto covers = [&](const auto& range) {
      return range.first <= begin && begin + bytes <= range.first + range.second;
    };
    const bool known = std::any_of(loans_.out.begin(), loans_.out.end(), covers) ||
                       std::any_of(loans_.hinted.begin(), loans_.hinted.end(), covers);
    if (bytes >= 32'768 && !known) ++loans_.strangers;
  }

  std::unique_ptr<Transport> inner_;
  Loans& loans_;
};

// Two ranks on such transports.
void run_noting(const std::function<void(Communicator&, Loans&)>& body) {
  World world(seed_of_test());
  const UniqueId id = world.new_id();
  World::run_threads(2, [&](u32 rank) {
    Loans loans;
    Ground ground = world.ground();
    ground.connect = [connect = ground.connect, &loans](Bootstrap& bootstrap, const Environment& environment) {
      Outcome<Links> links = connect(bootstrap, environment);
      for (auto& transport : links->routes.transports)
        transport = std::make_unique<NotesLoans>(std::move(transport), loans);
      return links;
    };
    auto communicator = Communicator::create_on(ground, id, 2, rank, {std::chrono::seconds(10), "lenders"});
    ASSERT_TRUE(communicator) << communicator.error().text;
    body(**communicator, loans);
    communicator->reset();
    EXPECT_TRUE(loans.out.empty() && loans.hinted.empty());
  });
}

TEST(Communicator, BuffersAreLentToTransportsForTheRunAndNoLonger) {
  constexpr u64 count = 1 << 20;
  run_noting([](Communicator& communicator, Loans& loans) {
    std::vector<i32> in(2 * count, 1);
    std::vector<i32> out(2 * count);
    for (const i32* input : {static_cast<const i32*>(in.data()), static_cast<const i32*>(out.data())}) {
      const Started started = communicator.start_all_reduce(input, out.data(), count, {DataType::int32});
      ASSERT_TRUE(started && communicator.wait(*started));
      EXPECT_TRUE(loans.out.empty());
    }
    // Several at once, of inputs that overlap.
    std::vector<Started> started;
    started.push_back(communicator.start_all_reduce(in.data(), out.data(), count, {DataType::int32}));
    started.push_back(communicator.start_all_reduce(in.data() + 1000, out.data() + count, count, {DataType::int32}));
    for (const Started& each : started) ASSERT_TRUE(each && communicator.wait(*each));
    EXPECT_TRUE(loans.out.empty());
    EXPECT_EQ(out[2 * count - 1], 2);
    EXPECT_GE(loans.borrowed, 6U);
    EXPECT_EQ(loans.strangers, 0U);
  });
}

TEST(Communicator, ShortBuffersAreNotWorthLending) {
  run_noting([](Communicator& communicator, Loans& loans) {
    std::vector<i32> memory(1000, 1);
    const Started started = communicator.start_all_reduce(memory.data(), memory.data(), 1000, {DataType::int32});
    ASSERT_TRUE(started && communicator.wait(*started));
    EXPECT_EQ(loans.borrowed, 0U);
  });
}

TEST(Communicator, AbortTakesBuffersBack) {
  std::promise<void> under_way;
  run_noting([&](Communicator& communicator, Loans& loans) {
    if (communicator.rank() == 1) {
      under_way.get_future().wait();
      return communicator.abort();
    }
    std::vector<i32> memory(1 << 20, 1);
    const Started started = communicator.start_all_reduce(memory.data(), memory.data(), 1 << 20, {DataType::int32});
    EXPECT_FALSE(loans.out.empty());
    under_way.set_value();
    ASSERT_TRUE(started);
    EXPECT_FALSE(communicator.wait(*started));
    EXPECT_TRUE(loans.out.empty());
  });
}

}  // namespace
}  // namespace softib::coll::test
