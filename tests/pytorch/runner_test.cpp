// Tasks and tagged messages on communicators whose timing is up to chance.
#include "pytorch/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <numeric>
#include <random>

#include "coll/world.h"

namespace softib::pytorch {
namespace {

using coll::Communicator;
using coll::Error;
using coll::Outcome;
using testing::HasSubstr;

u64 seed_of_runs() {
  if (const char* text = std::getenv("SOFTIB_TEST_SEED")) return std::strtoull(text, nullptr, 0);
  return std::random_device{}() | u64{std::random_device{}()} << 32;
}

// What came of a task or a message.
struct Result {
  std::atomic<bool> done{false};
  std::string error;
  u32 from = 0;

  void end(const Error* failure) {
    if (failure != nullptr) error = failure->text;
    done = true;
  }
};

void submit_sum(Runner& runner, u64& value, Result& result, std::size_t stages = 1) {
  Task task;
  task.name = "sum";
  for (std::size_t i = 0; i < stages; ++i)
    task.stages.emplace_back([&value](Communicator& ranks, std::vector<coll::Request>& requests) -> coll::Done {
      const auto started = ranks.start_all_reduce(&value, &value, 1, {coll::DataType::uint64, coll::Op::sum, {}});
      if (!started) return tl::unexpected(started.error());
      requests.push_back(*started);
      return {};
    });
  task.end = [&result](const Error* error) { result.end(error); };
  runner.submit(std::move(task));
}

void send(Runner& runner, u32 to, u64 tag, const std::vector<u8>& data, Result& result) {
  runner.send(to, tag, data.data(), data.size(), [&result](const Error* error) { result.end(error); });
}

void receive(Runner& runner, std::optional<u32> from, u64 tag, std::vector<u8>& data, Result& result) {
  runner.receive({from, tag, data.data(), data.size(), [&result](const Outcome<u32>& source) {
                    if (source) result.from = *source;
                    result.end(source ? nullptr : &source.error());
                  }});
}

void await(Runner& runner, const Result& result) {
  runner.help_until([&] { return result.done.load(); }, Clock::now() + std::chrono::seconds(60));
  ASSERT_TRUE(result.done);
}

// The communicators of a world belong to its ranks; a runner has its own.
void on_runners(u32 ranks, const std::function<void(Runner&, u32 rank)>& body, const coll::Config& config = {}) {
  const u64 seed = seed_of_runs();
  SCOPED_TRACE(testing::Message() << "SOFTIB_TEST_SEED=" << seed);
  coll::test::World world(seed);
  const coll::UniqueId id = world.new_id();
  const coll::Ground ground = world.ground();
  coll::test::World::run_threads(ranks, [&](u32 rank) {
    auto communicator = Communicator::create_on(ground, id, ranks, rank, config);
    ASSERT_TRUE(communicator) << communicator.error().text;
    Runner runner(std::move(*communicator));
    body(runner, rank);
  });
}

TEST(RunnerTest, TasksOfSeveralStagesKeepTheOrderOfAllRanks) {
  on_runners(3, [](Runner& runner, u32 rank) {
    std::array<u64, 20> values{};
    std::array<Result, 20> results;
    for (u32 i = 0; i < 20; ++i) {
      values[i] = rank + i;
      submit_sum(runner, values[i], results[i], 1 + i % 3);
    }
    for (u32 i = 20; i-- > 0;) {
      await(runner, results[i]);
      EXPECT_EQ(results[i].error, "");
      const u64 factor = i % 3 == 0 ? 1 : i % 3 == 1 ? 3 : 9;
      EXPECT_EQ(values[i], 3 * (i + 1) * factor) << i;
    }
    EXPECT_TRUE(runner.is_idle());
  });
}

TEST(RunnerTest, NobodyNeedsToWaitForATaskToEnd) {
  on_runners(2, [](Runner& runner, u32 rank) {
    u64 value = rank + 1;
    std::promise<void> ended;
    Result result;
    Task task;
    task.stages.emplace_back([&value](Communicator& ranks, std::vector<coll::Request>& requests) -> coll::Done {
      requests.push_back(*ranks.start_all_reduce(&value, &value, 1, {coll::DataType::uint64, coll::Op::sum, {}}));
      return {};
    });
    task.end = [&ended](const Error*) { ended.set_value(); };
    runner.submit(std::move(task));
    ASSERT_EQ(ended.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_EQ(value, 3U);
    // Both have it before one of them leaves.
    u64 again = 1;
    submit_sum(runner, again, result);
    await(runner, result);
  });
}

// Every message once, whatever is asked for first, of random sizes, from ranks by name and from any.
TEST(MailboxTest, MessagesGoToWhoAsksForTheirTag) {
  constexpr u32 ranks = 4;
  constexpr u32 tags = 12;
  const auto size_of = [](u32 from, u32 to, u32 tag) { return (from * 37 + to * 11 + tag * tag * 7) % 150; };
  const auto byte_of = [](u32 from, u32 to, u32 tag) { return static_cast<u8>(1 + from * 50 + to * 13 + tag); };
  on_runners(ranks, [&](Runner& runner, u32 rank) {
    struct Message {
      Message(u32 other, u32 number) : peer(other), tag(number) {}
      u32 peer, tag;
      std::vector<u8> data{};
      Result result{};
    };
    std::vector<std::unique_ptr<Message>> out;
    std::vector<std::unique_ptr<Message>> in;
    for (u32 peer = 0; peer < ranks; ++peer)
      for (u32 tag = 0; tag < tags; ++tag) {
        out.push_back(std::make_unique<Message>(peer, tag));
        out.back()->data.assign(size_of(rank, peer, tag), byte_of(rank, peer, tag));
        in.push_back(std::make_unique<Message>(peer, tag));
        in.back()->data.resize(size_of(peer, rank, tag));
      }
    std::mt19937 random(rank + 1);
    std::shuffle(out.begin(), out.end(), random);
    std::shuffle(in.begin(), in.end(), random);
    for (std::size_t i = 0; i < out.size(); ++i) {
      send(runner, out[i]->peer, out[i]->tag, out[i]->data, out[i]->result);
      receive(runner, in[i]->peer, in[i]->tag, in[i]->data, in[i]->result);
    }
    for (const auto& message : in) {
      await(runner, message->result);
      EXPECT_EQ(message->result.error, "");
      EXPECT_EQ(message->result.from, message->peer);
      EXPECT_THAT(message->data, testing::Each(byte_of(message->peer, rank, message->tag)));
    }
    for (const auto& message : out) await(runner, message->result);
    Result result;
    u64 value = 0;
    submit_sum(runner, value, result);
    await(runner, result);
  });
}

TEST(MailboxTest, FromAnyRankEachMessageComesOnce) {
  on_runners(3, [](Runner& runner, u32 rank) {
    std::vector<u8> data(100, static_cast<u8>(rank));
    Result sent;
    Result last;
    if (rank != 0) {
      send(runner, 0, 7, data, sent);
      await(runner, sent);
    } else {
      std::vector<u32> from;
      for (u32 i = 0; i < 2; ++i) {
        Result result;
        receive(runner, std::nullopt, 7, data, result);
        await(runner, result);
        from.push_back(result.from);
        EXPECT_THAT(data, testing::Each(static_cast<u8>(result.from)));
      }
      EXPECT_THAT(from, testing::UnorderedElementsAre(1, 2));
    }
    u64 value = 0;
    submit_sum(runner, value, last);
    await(runner, last);
    EXPECT_EQ(last.error, "");
  });
}

// After it there are receives of all ranks, and one of them has nothing to send.
TEST(MailboxTest, AReceiveFromAnyRankLeavesNobodyToBlame) {
  coll::Config config;
  config.timeout = std::chrono::milliseconds(500);
  std::promise<void> over;
  const std::shared_future<void> all_over = over.get_future().share();
  on_runners(
      3,
      [&](Runner& runner, u32 rank) {
        std::vector<u8> data(4);
        Result sent;
        Result first;
        Result second;
        if (rank == 1) {
          send(runner, 0, 7, data, sent);
          await(runner, sent);
        }
        if (rank != 0) return all_over.wait();
        receive(runner, std::nullopt, 7, data, first);
        await(runner, first);
        receive(runner, 1, 8, data, second);
        await(runner, second);
        EXPECT_THAT(second.error, testing::ContainsRegex(": rank 1 on host0 [^:]* takes no part"));
        over.set_value();
      },
      config);
}

TEST(MailboxTest, AReceiveOfAnotherSizeSaysSoAndTheNextOneIsRight) {
  on_runners(2, [](Runner& runner, u32 rank) {
    for (const u64 size : {3U, 100U}) {
      std::vector<u8> data(size, 5);
      Result first;
      Result second;
      if (rank == 0) {
        send(runner, 1, 1, data, first);
        send(runner, 1, 1, data, second);
      } else {
        std::vector<u8> wrong(size + 1);
        receive(runner, 0, 1, wrong, first);
        await(runner, first);
        EXPECT_THAT(first.error, HasSubstr("rank 0 sent"));
        data.assign(size, 0);
        receive(runner, 0, 1, data, second);
      }
      await(runner, first);
      await(runner, second);
      EXPECT_EQ(second.error, "");
      EXPECT_THAT(data, testing::Each(5));
    }
    Result result;
    u64 value = 0;
    submit_sum(runner, value, result);
    await(runner, result);
  });
}

TEST(RunnerTest, StoppingEndsWhatIsUnderWay) {
  on_runners(2, [](Runner& runner, u32 rank) {
    if (rank == 1) return;
    u64 value = 1;
    Result sum;
    Result received;
    Result late;
    std::vector<u8> data(10);
    submit_sum(runner, value, sum);
    receive(runner, 1, 0, data, received);
    runner.stop("enough");
    submit_sum(runner, value, late);
    for (const Result* result : {&sum, &received, &late}) {
      EXPECT_TRUE(result->done);
      EXPECT_NE(result->error, "");
    }
    EXPECT_EQ(late.error, "enough");
  });
}

TEST(RunnerTest, WhatIsWaitedForIsTold) {
  std::promise<void> seen;
  const std::shared_future<void> all_seen = seen.get_future().share();
  on_runners(2, [&](Runner& runner, u32 rank) {
    u64 value = 1;
    std::vector<u8> data(10);
    Result sum;
    Result received;
    Result any;
    if (rank == 1) {
      all_seen.wait();
      submit_sum(runner, value, sum);
      send(runner, 0, 3, data, received);
      send(runner, 0, 4, data, any);
    } else {
      const auto letter = [&data](std::optional<u32> from, u64 tag, Result& result) {
        return Letter{from,
                      tag,
                      data.data(),
                      data.size(),
                      [&result](const Outcome<u32>& source) { result.end(source ? nullptr : &source.error()); },
                      &result};
      };
      runner.receive(letter(1, 3, received));
      runner.receive(letter(std::nullopt, 4, any));
      Task task;
      task.stages.emplace_back([&value](Communicator& ranks, std::vector<coll::Request>& requests) -> coll::Done {
        requests.push_back(*ranks.start_all_reduce(&value, &value, 1, {coll::DataType::uint64, coll::Op::sum, {}}));
        return {};
      });
      task.end = [&sum](const Error* error) { sum.end(error); };
      task.owner = &sum;
      runner.submit(std::move(task));
      while (runner.what_is_awaited_by(&sum).empty()) runner.help_until([] { return false; }, Clock::now());
      EXPECT_EQ(runner.what_is_awaited_by(&sum), "for rank 1 on host0");
      EXPECT_EQ(runner.what_is_awaited_by(&received), "for a message with tag 3 from rank 1 on host0");
      EXPECT_EQ(runner.what_is_awaited_by(&any), "for a message with tag 4 from any rank");
      seen.set_value();
    }
    for (const Result* result : {&sum, &received, &any}) await(runner, *result);
    EXPECT_EQ(runner.what_is_awaited_by(&sum), "");
  });
}

// Its config has ten minutes, which nobody waits for here.
TEST(RunnerTest, ATimeOutThatIsSetLaterCounts) {
  std::promise<void> over;
  const std::shared_future<void> all_over = over.get_future().share();
  on_runners(2, [&](Runner& runner, u32 rank) {
    if (rank == 1) return all_over.wait();
    u64 value = 1;
    Result result;
    EXPECT_FALSE(runner.failure());
    submit_sum(runner, value, result);
    runner.set_timeout(std::chrono::milliseconds(300));
    await(runner, result);
    EXPECT_THAT(result.error, HasSubstr("rank 1 on host0"));
    const std::optional<Error> failure = runner.failure();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->text, result.error);
    runner.stop("enough");
    EXPECT_EQ(runner.failure().value_or(Error{}).text, "enough");
    over.set_value();
  });
}

TEST(RunnerTest, ATaskMayHaveLessTimeThanItsGroup) {
  on_runners(2, [](Runner& runner, u32 rank) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return;
    }
    Result result;
    Task task;
    task.name = "sum";
    u64 value = 1;
    task.stages.emplace_back([&value](Communicator& ranks, std::vector<coll::Request>& requests) -> coll::Done {
      requests.push_back(*ranks.start_all_reduce(&value, &value, 1, {coll::DataType::uint64, coll::Op::sum, {}}));
      return {};
    });
    task.deadline = Clock::now() + std::chrono::milliseconds(50);
    task.end = [&result](const Error* error) { result.end(error); };
    runner.submit(std::move(task));
    await(runner, result);
    EXPECT_THAT(result.error, testing::ContainsRegex("did not end in the time that rank 0 on host0 gave it; it "
                                                     "waited for rank 1 on host0"));
  });
}

}  // namespace
}  // namespace softib::pytorch
