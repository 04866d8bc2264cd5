// How those who are left of a communicator agree on who that is, by words over the bootstrap.
//
// In each round everybody says whom it holds for gone, and hears the same of all others but those. Where all said the
// same, that is it; otherwise the next round begins with all that anybody said. Who dies meanwhile is gone in the next
// round, or is missing when the new communicator is made.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

#include "coll/comm/fate.h"

namespace softib::coll {

class Survivors {
 public:
  Survivors(Bootstrap& bootstrap, Fate& fate, u32 rank) : bootstrap_(bootstrap), fate_(fate), rank_(rank) {}

  // Who is left, in order of ranks. All of them call it. Errors: somebody doesn't come within the time, or others hold
  // this rank for gone.
  [[nodiscard]] Outcome<std::vector<u32>> agree(std::set<u32> gone, std::chrono::nanoseconds timeout);
  // After agree(): what the first one of them has made.
  [[nodiscard]] Outcome<UniqueId> receive_id(u32 from);
  void give_id(const UniqueId& id);

 private:
  [[nodiscard]] Outcome<void> hear_round(std::set<u32>& gone);
  // False: the time is over.
  [[nodiscard]] bool listen(std::set<u32>* gone);
  void read_words();
  [[nodiscard]] Error late(u32 rank) const;

  Bootstrap& bootstrap_;
  Fate& fate_;
  u32 rank_;
  u64 round_ = 0;
  Clock::time_point end_{};
  std::map<std::pair<u64, u32>, std::set<u32>> said_;  // by round and rank
  std::map<std::pair<u64, u32>, std::string> ids_;
};

}  // namespace softib::coll
