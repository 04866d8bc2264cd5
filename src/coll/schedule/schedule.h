// A collective on one rank as plain data: rounds of steps over three buffers. Nothing here sends anything; an executor
// runs the steps over whatever connects the ranks. See docs/design/collectives.md.
//
// Within a round nothing depends on anything else: its steps may run in any order or at once, so no step of a round
// writes what another one reads or writes. A round begins when all steps of the one before have ended: a send when its
// memory may be written again (lent memory apart), a receive when its data is there.
//
// Messages between two ranks arrive in the order of the rounds that send them, and each send has exactly one receive of
// the same length; so a message needs no name.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"

namespace softib::coll {

// `input` is what the caller gives, `output` what it gets, `scratch` belongs to the executor. In place, input and
// output share memory: wholly where both have one size, else input is the caller's own block of output (all_gather,
// gather) or output the caller's own block of input (reduce_scatter, scatter).
enum class Buffer : u8 { input, output, scratch };

// Elements of a buffer. Offsets and counts are in elements everywhere.
struct Span {
  Buffer buffer = Buffer::scratch;
  u64 offset = 0;
  u64 count = 0;

  [[nodiscard]] constexpr u64 end() const { return offset + count; }
  [[nodiscard]] constexpr Span part(u64 at, u64 length) const { return {buffer, offset + at, length}; }
  friend constexpr bool operator==(const Span&, const Span&) = default;
};

enum class Kind : u8 {
  send,            // `from` goes to `peer`
  receive,         // from `peer` into `to`
  receive_reduce,  // to = what comes from `peer` op `from`; `to` may be `from`
  copy,            // to = from
  reduce,          // to = operands op'ed in their order; `to` may be one of them
  // `from` goes into the network, which combines what all ranks that have this step give, and gives all of them the
  // result in `to`; `from` may be `to`. Without elements in `from` a rank gives nothing, which is for broadcasts. The
  // ranks' steps meet in the order of their lanes, and within a lane in their own.
  aggregate,
};

struct Step {
  Kind kind = Kind::copy;
  // Of the reducing kinds: with this every rank's part is in. Op::avg divides here, and nowhere else.
  bool complete = false;
  // A message whose memory the sender may lend to the receiver instead of sending a copy; both sides say so. At the
  // receiver one reduce of the next round reads `to`, and nothing else ever does. The sender's round does not wait for
  // the end of the send, only its schedule does. Nothing there writes `from` later, unless with what comes from that
  // very peer and is sent after the reduce.
  bool lend = false;
  u32 peer = 0;  // a rank
  Span from{};
  Span to{};
  u32 first_operand = 0;  // into Schedule::operands
  u32 operand_count = 0;
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<u32> round_ends;  // one past the last step of each round; no round is empty
  std::vector<Span> operands;
  u64 scratch = 0;  // elements of scratch that the steps use

  [[nodiscard]] std::size_t rounds() const { return round_ends.size(); }
  [[nodiscard]] std::span<const Step> round(std::size_t number) const;
  [[nodiscard]] std::span<const Span> operands_of(const Step& step) const;
};

// Writes a schedule step by step. Steps of no elements are left out, on both sides of a message alike.
class Builder {
 public:
  void send(u32 peer, Span from);
  void receive(u32 peer, Span to);
  void send_lent(u32 peer, Span from);
  void receive_lent(u32 peer, Span to);
  void receive_reduce(u32 peer, Span with, Span to, bool complete);
  // Nothing if they are the same span. Copies of a round that go on where the last one ended become one.
  void copy(Span from, Span to);
  void reduce(std::span<const Span> operands, Span to, bool complete);
  void aggregate(Span from, Span to, bool complete);
  // Messages of no elements, which do go: their arrival is what counts.
  void send_signal(u32 peer);
  void receive_signal(u32 peer);
  void aggregate_signal();

  // What follows waits for what came before. Without steps since the last time it does nothing.
  void end_round();
  [[nodiscard]] Span new_scratch(u64 count);
  [[nodiscard]] Schedule finish();

 private:
  void add(const Step& step);
  [[nodiscard]] u32 round_begin() const { return schedule_.round_ends.empty() ? 0 : schedule_.round_ends.back(); }

  Schedule schedule_;
};

}  // namespace softib::coll
