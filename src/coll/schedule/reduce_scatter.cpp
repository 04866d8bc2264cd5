#include <algorithm>

#include "coll/schedule/algorithms.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

Schedule keep_own(const Problem& problem) {
  Builder builder;
  if (!problem.in_place) builder.copy(in(problem.input[0]), out(problem.output[0]));
  return builder.finish();
}

Place inputs_of(const Problem& problem) {
  return [&problem](u32 block) { return in(problem.input[block]); };
}

// My blocks one after the other: where the caller's don't adjoin, in scratch.
Span adjoining_input(Builder& builder, const Problem& problem, const Blocks& blocks) {
  if (adjoin(problem.input)) return {Buffer::input, problem.input[0].offset, total(blocks)};
  const Span room = builder.new_scratch(total(blocks));
  for (u32 block = 0; block < problem.group.size; ++block)
    builder.copy(in(problem.input[block]), room.part(blocks[block].offset, blocks[block].count));
  builder.end_round();
  return room;
}

}  // namespace

// Partial sums come and go through two blocks of scratch by turns.
Schedule reduce_scatter_ring(const Problem& problem) {
  const Group& group = problem.group;
  if (group.size == 1) return keep_own(problem);
  Builder builder;
  u64 largest = 0;
  for (const Range& block : problem.input) largest = std::max(largest, block.count);
  const Span rooms[]{builder.new_scratch(largest), builder.new_scratch(largest)};
  const auto partial = [&](u32 block) {
    if (block == group.index) return out(problem.output[0]);
    const u32 step = (group.index + group.size - block) % group.size;
    return rooms[step % 2].part(0, problem.input[block].count);
  };
  ring_reduce_scatter(builder, group, inputs_of(problem), partial, true);
  return builder.finish();
}

Schedule reduce_scatter_direct(const Problem& problem) {
  if (problem.group.size == 1) return keep_own(problem);
  Builder builder;
  direct_reduce_scatter(builder, problem.group, inputs_of(problem), out(problem.output[0]), true, Lending::yes);
  return builder.finish();
}

// Each round with another partner, whose block is added to mine where it will stay.
Schedule reduce_scatter_pairwise(const Problem& problem) {
  const Group& group = problem.group;
  if (group.size == 1) return keep_own(problem);
  Builder builder;
  const Span result = out(problem.output[0]);
  for (u32 step = 1; step < group.size; ++step) {
    builder.send(group.rank_of(group.after(step)), in(problem.input[group.after(step)]));
    builder.receive_reduce(group.rank_of(group.before(step)), step == 1 ? in(problem.input[group.index]) : result,
                           result, step + 1 == group.size);
    builder.end_round();
  }
  return builder.finish();
}

Schedule reduce_scatter_recursive_halving(const Problem& problem) {
  const Group& group = problem.group;
  if (group.size == 1) return keep_own(problem);
  Builder builder;
  const Blocks blocks = moved_together(problem.input);
  const Fold fold(group.size, group.index);
  const Span own = adjoining_input(builder, problem, blocks);
  const Span result = out(problem.output[0]);
  if (!fold.place()) {
    builder.send(group.rank_of(*fold.partner()), own);
    builder.end_round();
    builder.receive(group.rank_of(*fold.partner()), result);
    return builder.finish();
  }
  const auto within = [&](Span whole, u32 first, u32 last) {
    const Range range = joined(blocks, first, last);
    return whole.part(range.offset, range.count);
  };
  const Span room = own.buffer == Buffer::scratch ? own : builder.new_scratch(own.count);
  Span source = own;
  if (fold.partner()) {
    builder.receive_reduce(group.rank_of(*fold.partner()), own, room, false);
    builder.end_round();
    source = room;
  }
  const auto places = [&](Span whole) {
    return [&, whole](u32 first, u32 last) { return within(whole, fold.first(first), fold.first(last)); };
  };
  const auto last = [&](u32 first, u32 end) { return fold.partner() ? places(room)(first, end) : result; };
  halving_reduce_scatter(builder, group, fold, halvings(fold.core_size(), *fold.place(), Order::far_first),
                         places(source), places(room), last, true);
  if (fold.partner()) {
    builder.send(group.rank_of(*fold.partner()), within(room, *fold.partner(), group.index));
    builder.copy(within(room, group.index, group.index + 1), result);
  }
  return builder.finish();
}

}  // namespace softib::coll
