// Communicators as programs use them: each rank a process, met by sockets, connected by what there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "call_trial.h"
#include "coll/communicator.h"
#include "kill_run.h"
#include "meeting_ranks.h"
#include "random_run.h"

namespace softib::coll::test {
namespace {

using std::chrono::milliseconds;

u64 chosen_seed() {
  if (const char* text = std::getenv("SOFTIB_TEST_SEED")) return std::strtoull(text, nullptr, 0);
  return std::random_device{}() | u64{std::random_device{}()} << 32;
}

u32 effort() { return std::getenv("SOFTIB_TEST_FULL") != nullptr ? 10 : 1; }

// What differs between runs.
struct Setting {
  const char* name;
  bool shm = true;
  u32 hosts = 1;  // ranks are dealt out
};

std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << setting.name; }

using Body = std::function<void(u32 rank)>;

[[noreturn]] void run_child(const Setting& setting, u32 rank, const Body& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setenv("SOFTIB_SOCKET_IFNAME", "lo", 1);
  ::setenv("SOFTIB_IB_DISABLE", "1", 1);
  if (!setting.shm) ::setenv("SOFTIB_SHM_DISABLE", "1", 1);
  ::setenv("SOFTIB_HOSTID", ("host" + std::to_string(rank % setting.hosts)).c_str(), 1);
  body(rank);
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

void run_processes(const Setting& setting, u32 ranks, const Body& body, const std::set<u32>& mortal = {}) {
  std::fflush(nullptr);
  std::map<pid_t, u32> children;
  for (u32 rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) run_child(setting, rank, body);
    children[child] = rank;
  }
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    ASSERT_GT(ended, 0);
    const auto child = children.find(ended);
    if (child == children.end()) continue;
    EXPECT_TRUE(status == 0 || mortal.contains(child->second)) << "rank " << child->second;
    children.erase(child);
  }
}

std::unique_ptr<Communicator> communicator_of(const UniqueId& id, u32 ranks, u32 rank, const Config& config = {}) {
  auto made = Communicator::create(id, ranks, rank, config);
  if (!made) ADD_FAILURE() << made.error().text;
  return made ? std::move(*made) : nullptr;
}

class Processes : public testing::TestWithParam<Setting> {};

TEST_P(Processes, EveryCollectiveGivesWhatTheReferenceGives) {
  const u64 seed = chosen_seed();
  SCOPED_TRACE("SOFTIB_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const u32 ranks : {1U, 2U, 3U, 4U, 7U}) {
    std::vector<CallTrial> trials;
    for (u32 i = 0; i < 40 * effort(); ++i)
      trials.push_back(any_call(static_cast<Collective>(random() % 9), ranks, i % 10 == 0 ? 50000 : 300, random));
    const MeetingElsewhere meeting = meeting_elsewhere();
    const UniqueId& id = meeting.id;
    run_processes(GetParam(), ranks, [&](u32 rank) {
      const auto communicator = communicator_of(id, ranks, rank);
      ASSERT_TRUE(communicator);
      for (const CallTrial& trial : trials) {
        CallRank mine(trial, rank);
        const Started started = mine.start(*communicator);
        ASSERT_TRUE(started) << trial << ": " << started.error().text;
        const Done done = communicator->wait(*started);
        ASSERT_TRUE(done) << trial << ": " << done.error().text;
        ASSERT_EQ(mine.fault(), "") << trial;
      }
    });
  }
}

TEST_P(Processes, LongBuffersOfBothKinds) {
  constexpr u32 ranks = 3;
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  run_processes(GetParam(), ranks, [&](u32 rank) {
    const auto communicator = communicator_of(id, ranks, rank);
    ASSERT_TRUE(communicator);
    constexpr u64 count = 3'000'001;
    std::vector<i32> ordinary(count, static_cast<i32>(rank));
    const auto shared = communicator->allocate(count * sizeof(i32));
    ASSERT_TRUE(shared) << shared.error().text;
    for (i32* memory : {ordinary.data(), static_cast<i32*>(*shared)}) {
      for (u64 i = 0; i < count; ++i) memory[i] = static_cast<i32>(i * (rank + 1));
      const Started started = communicator->start_all_reduce(memory, memory, count, {DataType::int32});
      ASSERT_TRUE(started && communicator->wait(*started));
      for (u64 i = 0; i < count; ++i) ASSERT_EQ(memory[i], static_cast<i32>(i * 6)) << i;
    }
  });
}

TEST_P(Processes, SplitAndBack) {
  constexpr u32 ranks = 4;
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  run_processes(GetParam(), ranks, [&](u32 rank) {
    const auto communicator = communicator_of(id, ranks, rank);
    ASSERT_TRUE(communicator);
    const auto half = communicator->split(static_cast<i32>(rank / 2), 0);
    ASSERT_TRUE(half) << half.error().text;
    i32 mine = static_cast<i32>(rank);
    i32 sum = 0;
    const Started started = (*half)->start_all_reduce(&mine, &sum, 1, {DataType::int32});
    ASSERT_TRUE(started && (*half)->wait(*started));
    EXPECT_EQ(sum, rank < 2 ? 1 : 5);
  });
}

TEST_P(Processes, RandomCallsOnRandomPartsGiveWhatTheReferenceGives) {
  const u64 seed = chosen_seed();
  SCOPED_TRACE("SOFTIB_TEST_SEED=" + std::to_string(seed));
  constexpr u32 ranks = 5;
  const MeetingElsewhere meeting = meeting_elsewhere();
  run_processes(GetParam(), ranks, [&](u32 rank) {
    Config config;
    config.timeout = std::chrono::seconds(60);
    const auto communicator = communicator_of(meeting.id, ranks, rank, config);
    ASSERT_TRUE(communicator);
    RandomRun run(*communicator, {.shm = false, .verbs = false, .hosts = true}, testing::TempDir());
    for (u32 session = 0; session < 3 * effort(); ++session) ASSERT_EQ(run.session(seed + session), "") << session;
  });
}

// All others get an error that names the dead one, and can go on without it; nothing stays behind.
TEST_P(Processes, OneThatIsKilledIsNamedAndLeftBehind) {
  const u64 seed = chosen_seed();
  SCOPED_TRACE("SOFTIB_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr u32 ranks = 4;
  for (u32 time = 0; time < 5 * effort(); ++time) {
    const KillTrial trial = any_kill(ranks, random);
    const MeetingElsewhere meeting = meeting_elsewhere();
    const auto body = [&](u32 rank) { EXPECT_EQ(survive(meeting.id, trial, rank).fault, ""); };
    run_processes(GetParam(), ranks, body, {trial.victim});
  }
}

TEST_P(Processes, OneThatStopsIsNamed) {
  constexpr u32 ranks = 3;
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  const auto body = [&](u32 rank) {
    Config config;
    config.timeout = milliseconds(300);
    const auto communicator = communicator_of(id, ranks, rank, config);
    ASSERT_TRUE(communicator);
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(900));
      return;
    }
    const Started started = communicator->start_barrier();
    ASSERT_TRUE(started);
    const Done done = communicator->wait(*started);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().text,
                testing::MatchesRegex("nothing has moved for .*: rank 1 on .* takes no part while.*"));
  };
  run_processes(GetParam(), ranks, body);
}

INSTANTIATE_TEST_SUITE_P(Ways, Processes,
                         testing::Values(Setting{"shm"}, Setting{"tcp", false}, Setting{"hosts", true, 2}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace softib::coll::test
