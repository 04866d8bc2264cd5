#include "ranks.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <thread>

#include "local_bootstrap.h"

namespace softib::coll::test {

namespace {

using Body = std::function<void(Bootstrap&)>;

void run_rank(LocalMeeting& meeting, u32 rank, const Body& body) {
  const auto bootstrap = meeting.join(rank);
  body(*bootstrap);
  if (!testing::Test::HasFailure()) bootstrap->leave();
}

void run_threads(LocalMeeting& meeting, const Body& body) {
  std::vector<std::thread> threads;
  for (u32 rank = 0; rank < meeting.ranks(); ++rank)
    threads.emplace_back([&meeting, &body, rank] { run_rank(meeting, rank, body); });
  for (std::thread& thread : threads) thread.join();
}

[[noreturn]] void run_child(LocalMeeting& meeting, u32 rank, const Body& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  run_rank(meeting, rank, body);
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

void kill_all(const std::map<pid_t, u32>& children) {
  for (const auto& [pid, rank] : children) ::kill(pid, SIGKILL);
}

void run_processes(LocalMeeting& meeting, const RanksOptions& options, const Body& body) {
  std::fflush(nullptr);
  std::map<pid_t, u32> children;
  for (u32 rank = 0; rank < meeting.ranks(); ++rank) {
    const pid_t child = ::fork();
    if (child == 0) run_child(meeting, rank, body);
    ASSERT_GT(child, 0);
    children[child] = rank;
  }
  bool failed = false;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    ASSERT_GT(ended, 0);
    const auto child = children.find(ended);
    if (child == children.end()) continue;
    const u32 rank = child->second;
    children.erase(child);
    meeting.mark_ended(rank);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && options.mortal.contains(rank);
    if (status == 0 || killed || failed) continue;
    ADD_FAILURE() << "rank " << rank << " ended with wait status " << status;
    failed = true;
    kill_all(children);
  }
}

// Period 2048 words: long enough that no piece of a transport fits it, and short enough to stay in the cache.
constexpr u64 pattern_words = 2048 + 3;
constexpr u64 pattern_bytes = pattern_words * sizeof(u64);

const std::vector<std::byte>& pattern() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<u64> words(2 * pattern_words);
    for (u64 i = 0; i < words.size(); ++i) words[i] = (i % pattern_words + 1) * 0x9e3779b97f4a7c15;
    std::vector<std::byte> made(2 * pattern_bytes);
    std::memcpy(made.data(), words.data(), made.size());
    return made;
  }();
  return bytes;
}

template <typename Bytes, typename Body2>
u64 for_each_piece(Bytes bytes, u64 message, u64 offset, const Body2& body) {
  u64 place = (message * 0x632be59bd9b4e019 % pattern_bytes + offset) % pattern_bytes;
  u64 at = 0;
  while (at < bytes.size()) {
    const u64 length = std::min<u64>(bytes.size() - at, 2 * pattern_bytes - place);
    if (!body(bytes.subspan(at, length), pattern().data() + place)) return at;
    at += length;
    place = (place + length) % pattern_bytes;
  }
  return at;
}

}  // namespace

void run_ranks(const RanksOptions& options, const Body& body) {
  LocalMeeting meeting(options.ranks, options.host_keys);
  if (options.as == As::threads)
    run_threads(meeting, body);
  else
    run_processes(meeting, options, body);
}

void die_after(std::chrono::microseconds time) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  itimerspec when{};
  when.it_value.tv_sec = time.count() / 1'000'000;
  when.it_value.tv_nsec = time.count() % 1'000'000 * 1000 + 1;
  ASSERT_EQ(::timer_settime(timer, 0, &when, nullptr), 0);
}

void fill_pattern(std::span<std::byte> bytes, u64 message, u64 offset) {
  for_each_piece(bytes, message, offset, [](std::span<std::byte> piece, const std::byte* is) {
    std::memcpy(piece.data(), is, piece.size());
    return true;
  });
}

u64 first_difference(std::span<const std::byte> bytes, u64 message, u64 offset) {
  u64 differs = 0;
  const auto equal = [&differs](std::span<const std::byte> piece, const std::byte* is) {
    if (std::memcmp(piece.data(), is, piece.size()) == 0) return true;
    differs = static_cast<u64>(std::mismatch(piece.begin(), piece.end(), is).first - piece.begin());
    return false;
  };
  return for_each_piece(bytes, message, offset, equal) + differs;
}

u64 resident_bytes() {
  std::ifstream file("/proc/self/statm");
  u64 size = 0;
  u64 resident = 0;
  file >> size >> resident;
  return resident * static_cast<u64>(::sysconf(_SC_PAGESIZE));
}

}  // namespace softib::coll::test
