// A collective as the caller asks for it, before anything is chosen: what is wrong with it, and what problem it poses.
#pragma once

#include <span>
#include <vector>

#include "coll/error.h"
#include "coll/execute/run.h"
#include "coll/schedule/algorithms.h"
#include "coll/tune/tuner.h"
#include "coll/types.h"

namespace softib::coll {

struct Call {
  Collective collective = Collective::barrier;
  const void* in = nullptr;
  void* out = nullptr;
  DataType type = DataType::int8;
  Op op = Op::sum;
  Scalar factor{};
  u32 root = 0;
  bool equal = true;
  u64 count = 0;                  // of each rank, if equal
  std::span<const u64> counts{};  // else, by rank; all_to_all: what goes to each
  // all_to_all_v alone.
  std::span<const u64> offsets{};
  std::span<const u64> received{};
  std::span<const u64> received_offsets{};
};

struct Seat {
  u32 rank = 0;
  u32 ranks = 1;
};

// Null pointers, ranks that don't exist, lists of another length than there are ranks, sizes beyond memory, memory that
// overlaps otherwise than in place. Otherwise: is it in place?
[[nodiscard]] Outcome<bool> check(const Call& call, Seat seat);

// What is the same for all calls that can share a plan. `list` has what counts and offsets there are.
struct Shape {
  Collective collective = Collective::barrier;
  u8 element = 1;  // bytes
  bool in_place = false;
  bool equal = true;
  u32 root = 0;
  u64 count = 0;

  friend bool operator==(const Shape&, const Shape&) = default;
};

// A premultiplied sum scales the input first: to the output and then in place, or, where the output has no room for it,
// to memory of the executor's.
void plan_scaling(const Call& call, Seat seat, Shape& shape, Work& work);

[[nodiscard]] Problem problem_of(const Call& call, const Shape& shape, Seat seat);
[[nodiscard]] Question question_of(const Call& call, Seat seat);
[[nodiscard]] CallDigest digest_of(const Call& call, u64 number);
// "all_gather of 4 float by rank", for messages.
[[nodiscard]] std::string text_of(const CallDigest& digest);

}  // namespace softib::coll
