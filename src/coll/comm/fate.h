// How a communicator ends before its time: aborts, members that died, and members that hang, found by asking who waits
// for whom.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coll/bootstrap/bootstrap.h"
#include "coll/error.h"

namespace softib::coll {

using Clock = std::chrono::steady_clock;

// "rank 3 on host1 (process 4242)".
[[nodiscard]] std::string text_of(const Member& member);

class Fate {
 public:
  explicit Fate(Bootstrap& bootstrap, u32 rank) : bootstrap_(bootstrap), rank_(rank) {}

  // Any thread.
  [[nodiscard]] bool has_ended() const { return ended_.load(std::memory_order_acquire); }
  [[nodiscard]] std::optional<Error> error() const;
  // The first error counts, and all others are told of it.
  void end(const Error& error);
  void abort(const std::string& why);

  // The rest is for the thread that uses the communicator.

  // What came from the others since the last time. An error: one of them has ended, or ended the communicator and said
  // all there is to say (is_told()).
  [[nodiscard]] std::optional<Error> look();
  [[nodiscard]] bool is_told() const { return told_; }
  // Somebody waits too long and says for whom: who waits as well answers with tell(). True once for each time.
  [[nodiscard]] bool is_asked() { return std::exchange(asked_, false); }
  // Tells all others whom this rank waits for.
  void tell(const std::vector<u32>& awaited, u64 collective);

  // Who is to blame, by what others told: those who are waited for and wait for nobody. Empty: ranks wait for each
  // other in a circle.
  [[nodiscard]] std::vector<u32> culprits(const std::vector<u32>& awaited) const;
  // Something moves again.
  void forget_blames() { waits_.clear(); }
  // What others said since the last time: who, and what.
  [[nodiscard]] std::vector<std::pair<u32, std::string>> take_words() { return std::exchange(words_, {}); }
  // Members that died.
  [[nodiscard]] const std::set<u32>& dead() const { return dead_; }

 private:
  [[nodiscard]] std::string who(u32 rank) const { return text_of(bootstrap_.members()[rank]); }

  Bootstrap& bootstrap_;
  u32 rank_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;  // of the error, and of the bootstrap's news and messages
  std::optional<Error> error_;
  std::map<u32, std::set<u32>> waits_;
  std::set<u32> dead_;
  std::vector<std::pair<u32, std::string>> words_;
  bool asked_ = false;
  bool told_ = false;
};

}  // namespace softib::coll
