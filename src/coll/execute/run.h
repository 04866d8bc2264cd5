// The state of one collective under way.
#pragma once

#include <vector>

#include "coll/execute/plan.h"
#include "coll/innetwork/tree.h"
#include "coll/transport/transport.h"
#include "coll/types.h"

namespace softib::coll {

// Combines a message with what is here while it arrives.
class ReduceSink final : public Sink {
 public:
  void take(u64 offset, const void* data, u64 bytes) override;

  DataType type = DataType::float32;
  Op op = Op::sum;
  u32 ranks = 1;  // to divide by
  const std::byte* own = nullptr;
  std::byte* out = nullptr;
};

// A step's message.
struct Slot {
  enum class Kind : u8 { receive, send, aggregation };

  Send send;
  Receive receive;
  ReduceSink sink;
  Aggregation aggregation;
  Kind kind = Kind::receive;

  [[nodiscard]] const Operation& operation() const {
    return kind == Kind::send          ? static_cast<const Operation&>(send)
           : kind == Kind::aggregation ? static_cast<const Operation&>(aggregation)
                                       : receive;
  }
};

// What a collective works on.
struct Work {
  const void* input = nullptr;
  void* output = nullptr;
  DataType type = DataType::float32;
  Op op = Op::sum;
  // premul_sum: so many elements of input times the factor come to `scaled`, or to memory of the executor's own where
  // that is nullptr, and take the input's place.
  Scalar factor{};
  void* scaled = nullptr;
  u64 scaled_count = 0;
};

// One place for lanes: they take their turns there.
struct LaneRun {
  const PlannedLane* planned = nullptr;  // nullptr: no lane
  Stream stream = 0;
  u32 round = 0;
  std::vector<Slot> slots;   // by step
  std::vector<u32> waiting;  // steps of the round that are not over
  std::vector<u32> lent;     // sends of lent memory that have not come back, receives of it not given back yet
  std::byte* scratch = nullptr;
  std::vector<std::byte> kept;  // the memory of little scratch
};

// What ranks compare before they begin, where that is asked for.
struct CallDigest {
  u64 number = 0;
  u64 count = 0;
  u64 list = 0;  // a hash of counts by rank
  u32 root = 0;
  Collective collective = Collective::barrier;
  DataType type = DataType::float32;
  Op op = Op::sum;
  u8 unused = 0;

  friend bool operator==(const CallDigest&, const CallDigest&) = default;
};

struct Run {
  Plan* plan = nullptr;  // nullptr: messages of its own, in places[0]
  u64 number = 0;        // the request's
  u64 collective = 0;    // how many collectives came before it on this communicator
  bool wanted = true;    // somebody waits for it
  Work work;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<LaneRun> places;
  u32 next_lane = 0;
  u32 places_busy = 0;
  u64 scratch_bytes = 0;  // of each place
  std::byte* scaled = nullptr;
  u64 scaled_bytes = 0;
  bool lends = false;  // transports were told of its buffers
  bool checking = false;
  Slot check_out, check_in;
  CallDigest mine, theirs;
};

}  // namespace softib::coll
