// Runs the schedules of all ranks in one process. Which message arrives next, which local step is done next, whether a
// send copies at once or waits for its receiver, whether memory is lent or copied: all by a random generator. What has
// not arrived yet is rubbish.
#pragma once

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "coll/schedule/schedule.h"

namespace softib::coll::test {

// Elements are words; what they mean is the operator's affair.
struct Operator {
  u64 (*combine)(u64 a, u64 b);
  u64 (*finish)(u64 sum);  // done with each complete combination
};

// A rank's memory: one row of words, in which input and output lie, side by side or one upon the other.
struct Memory {
  std::vector<u64> words;
  u64 input_at = 0, input_size = 0;
  u64 output_at = 0, output_size = 0;
};

struct Rank {
  std::vector<Schedule> lanes;
  Memory memory;
};

enum class Sends : u8 {
  any,          // some copy at once, some wait; some memory is lent
  synchronous,  // all wait for their receivers, and all that may be lent is
};

struct Outcome {
  std::string error;      // empty: all went well
  u32 hops = 0;           // messages one after the other on the longest way; synchronous sends only
  std::vector<u64> sent;  // elements, by rank
  u64 messages = 0;
};

// What is wrong with the schedules before anything runs: out of bounds, steps of a round or lanes in each other's way,
// lent memory read twice. Empty: nothing.
[[nodiscard]] std::string faults_of(const std::vector<Rank>& ranks);

// Leaves the results in the ranks' memories.
[[nodiscard]] Outcome simulate(std::vector<Rank>& ranks, const Operator& op, Sends sends, std::mt19937_64& random);

}  // namespace softib::coll::test
