// A schedule made ready to run: its steps in the order in which they are begun, and for each operand whether it may
// come from lent memory.
#pragma once

#include <memory>
#include <vector>

#include "coll/schedule/algorithms.h"

namespace softib::coll {

struct Run;

inline constexpr u32 no_step = ~u32{0};

struct PlannedLane {
  // As the algorithm made it, but in each round sends stand first, receives next and what is done here last: messages
  // are on their way while this rank computes.
  Schedule schedule;
  // For each operand of Schedule::operands: the step that receives it and may be shown lent memory, or no_step.
  std::vector<u32> lent_by;
  // For each step whether it is a send of a round that has as many receives: Send::push.
  std::vector<bool> pushes;
  // By step: which of all messages to that peer, or from it, it is; from 1.
  std::vector<u32> ordinals;
};

struct Stretch {
  u64 begin = ~u64{0};  // elements
  u64 end = 0;

  [[nodiscard]] u64 count() const { return end > begin ? end - begin : 0; }
};

// One collective on this rank for given counts, with as many lanes as the tuner chose. Knows no memory and no type, so
// it is used again and again.
struct Plan {
  Collective collective = Collective::barrier;
  Algorithm algorithm = Algorithm::direct;
  std::vector<PlannedLane> lanes;
  u32 window = 1;         // so many lanes are under way at once
  u64 scratch = 0;        // elements, of the lane that wants most
  std::size_t steps = 0;  // of the lane that has most
  // What lies between the first and the last element that messages of all lanes touch.
  Stretch input, output;
  // Lanes with a step that goes into the network, once for each such step.
  std::vector<u32> aggregating;

  // Runs of this plan that are over, with all their memory: the next one takes its place there.
  std::vector<std::unique_ptr<Run>> idle;
  u32 active = 0;  // runs under way

  Plan();
  ~Plan();
};

[[nodiscard]] std::unique_ptr<Plan> make_plan(const AlgorithmRow& row, const Problem& problem, u32 lanes, u32 window);

}  // namespace softib::coll
