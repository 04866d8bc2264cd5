#include "coll/schedule/schedule.h"

#include <cassert>
#include <utility>

namespace softib::coll {

std::span<const Step> Schedule::round(std::size_t number) const {
  const u32 first = number == 0 ? 0 : round_ends[number - 1];
  return std::span(steps).subspan(first, round_ends[number] - first);
}

std::span<const Span> Schedule::operands_of(const Step& step) const {
  return std::span(operands).subspan(step.first_operand, step.operand_count);
}

void Builder::add(const Step& step) { schedule_.steps.push_back(step); }

void Builder::send(u32 peer, Span from) {
  if (from.count != 0) add({.kind = Kind::send, .peer = peer, .from = from});
}

void Builder::receive(u32 peer, Span to) {
  if (to.count != 0) add({.kind = Kind::receive, .peer = peer, .to = to});
}

void Builder::send_lent(u32 peer, Span from) {
  if (from.count != 0) add({.kind = Kind::send, .lend = true, .peer = peer, .from = from});
}

void Builder::receive_lent(u32 peer, Span to) {
  if (to.count != 0) add({.kind = Kind::receive, .lend = true, .peer = peer, .to = to});
}

void Builder::receive_reduce(u32 peer, Span with, Span to, bool complete) {
  assert(with.count == to.count);
  if (to.count != 0) add({.kind = Kind::receive_reduce, .complete = complete, .peer = peer, .from = with, .to = to});
}

void Builder::copy(Span from, Span to) {
  assert(from.count == to.count);
  if (to.count == 0 || from == to) return;
  if (schedule_.steps.size() > round_begin()) {
    Step& last = schedule_.steps.back();
    const auto follows = [](const Span& a, const Span& b) { return a.buffer == b.buffer && a.end() == b.offset; };
    if (last.kind == Kind::copy && follows(last.from, from) && follows(last.to, to)) {
      last.from.count += from.count;
      last.to.count += to.count;
      return;
    }
  }
  add({.kind = Kind::copy, .from = from, .to = to});
}

void Builder::reduce(std::span<const Span> operands, Span to, bool complete) {
  if (to.count == 0) return;
  add({.kind = Kind::reduce,
       .complete = complete,
       .to = to,
       .first_operand = static_cast<u32>(schedule_.operands.size()),
       .operand_count = static_cast<u32>(operands.size())});
  schedule_.operands.insert(schedule_.operands.end(), operands.begin(), operands.end());
}

void Builder::aggregate(Span from, Span to, bool complete) {
  assert(from.count == to.count || from.count == 0);
  if (to.count != 0) add({.kind = Kind::aggregate, .complete = complete, .from = from, .to = to});
}

void Builder::aggregate_signal() { add({.kind = Kind::aggregate}); }

void Builder::send_signal(u32 peer) { add({.kind = Kind::send, .peer = peer}); }

void Builder::receive_signal(u32 peer) { add({.kind = Kind::receive, .peer = peer}); }

void Builder::end_round() {
  const auto end = static_cast<u32>(schedule_.steps.size());
  if (end != round_begin()) schedule_.round_ends.push_back(end);
}

Span Builder::new_scratch(u64 count) {
  const Span span{Buffer::scratch, schedule_.scratch, count};
  schedule_.scratch += count;
  return span;
}

Schedule Builder::finish() {
  end_round();
  return std::exchange(schedule_, {});
}

}  // namespace softib::coll
