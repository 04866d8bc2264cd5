// One collective with random content, called through a communicator, and what must come out by the plain reference.
#pragma once

#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "coll/communicator.h"
#include "coll/schedule/algorithms.h"

namespace softib::coll::test {

struct CallTrial {
  Collective collective = Collective::all_reduce;
  u32 ranks = 1;
  DataType type = DataType::float32;
  Op op = Op::sum;
  bool in_place = false;
  bool by_rank = false;  // the form with counts by rank
  u32 root = 0;
  // By rank; all_to_all: by sender and receiver. All the same unless `by_rank`.
  std::vector<u64> counts{};
  u64 seed = 0;
};

std::ostream& operator<<(std::ostream& out, const CallTrial& trial);

[[nodiscard]] CallTrial any_call(Collective collective, u32 ranks, u64 largest_count, std::mt19937_64& random);

// One rank's memory and part in it.
class CallRank {
 public:
  CallRank(const CallTrial& trial, u32 rank);

  [[nodiscard]] Started start(Communicator& communicator);
  // Once it is done: what is wrong; empty: nothing. Memory beside the result must be as it was.
  [[nodiscard]] std::string fault() const;
  [[nodiscard]] const std::vector<std::byte>& result() const { return memory_; }

 private:
  using Bytes = std::vector<std::byte>;

  [[nodiscard]] u64 size() const { return size_of(trial_.type); }
  [[nodiscard]] bool reduces() const;
  [[nodiscard]] u64 count_of(u32 from, u32 to) const;
  // What a rank gives: of `block`.
  [[nodiscard]] Bytes given(u32 rank, u32 block) const;
  [[nodiscard]] Bytes input_of(u32 rank) const;
  [[nodiscard]] Bytes expected() const;
  [[nodiscard]] Bytes reduced(u32 block) const;
  [[nodiscard]] Reduction reduction() const;
  [[nodiscard]] Scalar factor_of(u32 rank) const;
  [[nodiscard]] Started start_by_rank(Communicator& communicator, const void* in, void* out);
  void lay_out();

  const CallTrial trial_;
  const u32 rank_;
  Bytes memory_;  // guard, input, guard, output, guard
  Bytes before_;
  u64 input_at_ = 0;
  u64 output_at_ = 0;
  u64 output_bytes_ = 0;
  std::vector<u64> offsets_[2];  // all_to_all_v: of what is sent and received
};

}  // namespace softib::coll::test
