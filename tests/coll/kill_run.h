// One rank of a communicator dies at any time; what the others must then see.
#pragma once

#include <chrono>
#include <random>
#include <string>

#include "coll/communicator.h"

namespace softib::coll::test {

struct KillTrial {
  u32 ranks = 4;
  u32 victim = 0;
  std::chrono::microseconds when{};  // since all are connected
  u64 seed = 0;
};

[[nodiscard]] KillTrial any_kill(u32 ranks, std::mt19937_64& random);

struct Survival {
  std::string fault;  // empty: all is well
  std::string error;  // what the communicator said
  std::chrono::steady_clock::time_point told{};
};

// The victim never returns. The others work until an error comes: it must name the victim and its host, come from its
// death and not from a time-out, and leave behind nothing of the communicators once they are gone. Those who are left
// make a new communicator, which works.
[[nodiscard]] Survival survive(const UniqueId& id, const KillTrial& trial, u32 rank);

}  // namespace softib::coll::test
