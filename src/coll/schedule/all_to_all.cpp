// All-to-all, point to point, and the barrier.
#include "coll/schedule/algorithms.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

// Where my blocks can be sent from for as long as it takes: in place, arrivals would write over them, so scratch has
// them first.
Blocks lasting_input(Builder& builder, const Problem& problem, Buffer& buffer) {
  buffer = Buffer::input;
  if (!problem.in_place) return problem.input;
  Blocks blocks = moved_together(problem.input);
  const Span room = builder.new_scratch(total(blocks));
  buffer = Buffer::scratch;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Span kept = room.part(blocks[i].offset, blocks[i].count);
    blocks[i].offset = kept.offset;
    if (i != problem.group.index) builder.copy(in(problem.input[i]), kept);
  }
  builder.end_round();
  return blocks;
}

enum class Pace : u8 { one_by_one, all_at_once };

Schedule exchange_blocks(const Problem& problem, Pace pace) {
  Builder builder;
  const Group& group = problem.group;
  Buffer buffer{};
  const Blocks blocks = lasting_input(builder, problem, buffer);
  if (!problem.in_place) builder.copy(in(problem.input[group.index]), out(problem.output[group.index]));
  for (u32 step = 1; step < group.size; ++step) {
    const Range give = blocks[group.after(step)];
    builder.send(group.rank_of(group.after(step)), {buffer, give.offset, give.count});
    builder.receive(group.rank_of(group.before(step)), out(problem.output[group.before(step)]));
    if (pace == Pace::one_by_one) builder.end_round();
  }
  return builder.finish();
}

}  // namespace

Schedule all_to_all_pairwise(const Problem& problem) { return exchange_blocks(problem, Pace::one_by_one); }

Schedule all_to_all_direct(const Problem& problem) { return exchange_blocks(problem, Pace::all_at_once); }

// The block for the rank j places after me travels by the powers of two that make up j, together with all others that
// take the same step. `where` is where the block that has j places to go, all in all, lies now.
Schedule all_to_all_bruck(const Problem& problem) {
  Builder builder;
  const Group& group = problem.group;
  const u64 count = problem.input[0].count;
  std::vector<Span> where;
  for (u32 places = 0; places < group.size; ++places) where.push_back(in(problem.input[group.after(places)]));
  const Span packed = builder.new_scratch((group.size + 1) / 2 * count);
  for (u32 hop = 1; hop < group.size; hop *= 2) {
    std::vector<u32> moving;
    for (u32 places = 0; places < group.size; ++places)
      if ((places & hop) != 0) moving.push_back(places);
    for (std::size_t i = 0; i < moving.size(); ++i) builder.copy(where[moving[i]], packed.part(i * count, count));
    builder.end_round();
    const Span arrivals = builder.new_scratch(moving.size() * count);
    builder.send(group.rank_of(group.after(hop)), packed.part(0, arrivals.count));
    builder.receive(group.rank_of(group.before(hop)), arrivals);
    builder.end_round();
    for (std::size_t i = 0; i < moving.size(); ++i) where[moving[i]] = arrivals.part(i * count, count);
  }
  for (u32 places = problem.in_place ? 1 : 0; places < group.size; ++places)
    builder.copy(where[places], out(problem.output[group.before(places)]));
  return builder.finish();
}

Schedule exchange(const Group& group, std::span<const Message> sends, std::span<const Message> receives) {
  Builder builder;
  std::vector<Range> to_myself;
  for (const Message& message : sends) {
    if (message.member == group.index)
      to_myself.push_back(message.range);
    else
      builder.send(group.rank_of(message.member), in(message.range));
  }
  auto next = to_myself.begin();
  for (const Message& message : receives) {
    if (message.member != group.index)
      builder.receive(group.rank_of(message.member), out(message.range));
    else if (next != to_myself.end())
      builder.copy(in(*next++), out(message.range));
  }
  return builder.finish();
}

// After round k everybody has heard, through others, of the 2^(k+1) - 1 ranks before it.
Schedule barrier_dissemination(const Problem& problem) {
  Builder builder;
  const Group& group = problem.group;
  for (u32 distance = 1; distance < group.size; distance *= 2) {
    builder.send_signal(group.rank_of(group.after(distance)));
    builder.receive_signal(group.rank_of(group.before(distance)));
    builder.end_round();
  }
  return builder.finish();
}

}  // namespace softib::coll
