// One collective with random content, called through a communicator, and what must come out by the plain reference.
#pragma once

#include <memory>
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
  // Each rank's memory is of any kind, buffers begin at any element, and blocks of all_to_all_v lie in any order with
  // gaps between them; whether it works in place is each rank's own affair where the collective leaves it that.
  bool scattered = false;
  u64 seed = 0;
};

std::ostream& operator<<(std::ostream& out, const CallTrial& trial);

[[nodiscard]] CallTrial any_call(Collective collective, u32 ranks, u64 largest_count, std::mt19937_64& random);

// One rank's memory and part in it.
class CallRank {
 public:
  // Takes some memory of the communicator where the trial is `scattered`; it must outlive this then.
  CallRank(const CallTrial& trial, u32 rank, Communicator* communicator = nullptr);

  [[nodiscard]] Started start(Communicator& communicator);
  // Once it is done: what is wrong; empty: nothing. Memory beside the result must be as it was.
  [[nodiscard]] std::string fault() const;

 private:
  using Bytes = std::vector<std::byte>;
  struct Piece {
    u64 offset = 0;  // bytes
    Bytes bytes;
  };

  [[nodiscard]] u64 size() const { return size_of(trial_.type); }
  [[nodiscard]] bool reduces() const;
  [[nodiscard]] u64 count_of(u32 from, u32 to) const;
  // What a rank gives: of `block`.
  [[nodiscard]] Bytes given(u32 rank, u32 block) const;
  [[nodiscard]] std::vector<Piece> pieces_in() const;
  [[nodiscard]] std::vector<Piece> pieces_out() const;
  [[nodiscard]] Bytes input_of(u32 rank) const;
  [[nodiscard]] Bytes expected() const;
  [[nodiscard]] Bytes reduced(u32 block) const;
  [[nodiscard]] Reduction reduction() const;
  [[nodiscard]] Scalar factor_of(u32 rank) const;
  [[nodiscard]] Started start_by_rank(Communicator& communicator, const void* in, void* out);
  [[nodiscard]] bool has_offsets() const { return trial_.by_rank && trial_.collective == Collective::all_to_all; }
  void lay_out(Communicator* communicator);
  void choose_offsets(std::mt19937_64& random);
  void choose_places(u64 input_bytes, std::mt19937_64& random);

  CallTrial trial_;
  u32 rank_;
  bool in_place_ = false;
  std::shared_ptr<std::byte> memory_;  // guard, input, guard, output, guard
  Bytes before_;
  u64 input_at_ = 0;
  u64 output_at_ = 0;
  u64 output_bytes_ = 0;
  // all_to_all_v: of what is sent and received
  std::vector<u64> counts_[2];
  std::vector<u64> offsets_[2];
  u64 extents_[2]{};
};

}  // namespace softib::coll::test
