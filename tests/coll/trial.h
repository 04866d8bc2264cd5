// One collective on some ranks: their problems, memories, and what must come out.
#pragma once

#include <ostream>

#include "coll/schedule/algorithms.h"
#include "simulator.h"

namespace softib::coll::test {

struct Trial {
  const AlgorithmRow* row = nullptr;
  u32 ranks = 1;
  // By rank; all_to_all: by sender and receiver, row after row. Those with one block use the first one.
  std::vector<u64> counts{};
  u32 root = 0;
  bool in_place = false;
  u32 lanes = 1;
  u64 granule = 1;
  bool spread = false;    // blocks with gaps between them, other ones on each rank
  bool shuffled = false;  // members are ranks in another order
  std::vector<u32> hosts{};
  u64 seed = 0;
};

std::ostream& operator<<(std::ostream& out, const Trial& trial);

// Everything random about a trial but its counts comes from its seed.
[[nodiscard]] Trial any_trial(const AlgorithmRow& row, u32 ranks, u64 largest_count, std::mt19937_64& random);

struct Expected {
  u32 rank;
  u64 word;  // of the rank's memory
  u64 value;
};

class Stage {
 public:
  explicit Stage(const Trial& trial);

  std::vector<Rank> ranks;
  std::vector<Expected> expected;
  std::vector<Problem> problems;  // by rank

  // Runs the schedules and compares; empty if all is well.
  [[nodiscard]] std::string run(Sends sends, Outcome* outcome = nullptr);

 private:
  void add_member(u32 member);
  void expect_results();
  void expect_range(u32 member, Range range, const std::vector<u64>& values);
  [[nodiscard]] std::vector<u64> given(u32 member, std::size_t block) const;
  [[nodiscard]] std::vector<u64> sum_of(std::size_t block) const;
  [[nodiscard]] Blocks layout(const std::vector<u64>& counts);
  void lay_out(Problem& problem, u32 member);
  void lay_in_place(const Problem& problem, u32 member, Memory& memory) const;

  Trial trial_;
  std::mt19937_64 random_;
  std::vector<u32> rank_of_;
  std::vector<Memory> before_;
};

// Sums of words, each complete one times an odd number: it comes out once if and only if that was done once, last.
extern const Operator word_sum;
// Sums of doubles, which depend on the order.
extern const Operator double_sum;

}  // namespace softib::coll::test
