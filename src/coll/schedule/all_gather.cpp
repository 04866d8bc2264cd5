#include <algorithm>

#include "coll/schedule/algorithms.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

void place_own(Builder& builder, const Problem& problem) {
  if (!problem.in_place) builder.copy(in(problem.input[0]), out(problem.output[problem.group.index]));
}

}  // namespace

Schedule all_gather_ring(const Problem& problem) {
  Builder builder;
  place_own(builder, problem);
  ring_all_gather(builder, problem.group, in(problem.input[0]), [&](u32 block) { return out(problem.output[block]); });
  return builder.finish();
}

Schedule all_gather_direct(const Problem& problem) {
  Builder builder;
  place_own(builder, problem);
  direct_all_gather(builder, problem.group, in(problem.input[0]),
                    [&](u32 block) { return out(problem.output[block]); });
  return builder.finish();
}

// Messages hold several blocks, so these must adjoin: where the output's don't, scratch takes them first.
Schedule all_gather_recursive_doubling(const Problem& problem) {
  Builder builder;
  const Group& group = problem.group;
  const Fold fold(group.size, group.index);
  const bool staged = !adjoin(problem.output);
  const Blocks blocks = staged ? moved_together(problem.output) : problem.output;
  const Span room = staged ? builder.new_scratch(total(blocks)) : Span{Buffer::output, 0, blocks.back().end()};
  const auto members = [&](u32 first, u32 last) {
    const Range range = joined(blocks, first, last);
    return room.part(range.offset, range.count);
  };
  const Span own = members(group.index, group.index + 1);
  if (staged || !problem.in_place) builder.copy(in(problem.input[0]), own);
  builder.end_round();
  if (!fold.place()) {
    builder.send(group.rank_of(*fold.partner()), own);
    builder.end_round();
    builder.receive(group.rank_of(*fold.partner()), members(0, group.size));
  } else {
    if (fold.partner()) builder.receive(group.rank_of(*fold.partner()), members(*fold.partner(), group.index));
    builder.end_round();
    doubling_all_gather(builder, group, fold, halvings(fold.core_size(), *fold.place(), Order::far_first),
                        [&](u32 first, u32 last) { return members(fold.first(first), fold.first(last)); });
    if (fold.partner()) builder.send(group.rank_of(*fold.partner()), members(0, group.size));
  }
  builder.end_round();
  for (u32 block = 0; staged && block < group.size; ++block)
    builder.copy(members(block, block + 1), out(problem.output[block]));
  return builder.finish();
}

// Block j of scratch is that of the rank j places after me. Each round doubles the number of blocks that I have.
Schedule all_gather_bruck(const Problem& problem) {
  Builder builder;
  const Group& group = problem.group;
  Blocks turned;
  for (u32 block = 0; block < group.size; ++block) turned.push_back(problem.output[group.after(block)]);
  const Blocks blocks = moved_together(turned);
  const Span room = builder.new_scratch(total(blocks));
  const auto held = [&](u32 first, u32 last) {
    const Range range = joined(blocks, first, last);
    return room.part(range.offset, range.count);
  };
  builder.copy(in(problem.input[0]), held(0, 1));
  builder.end_round();
  for (u32 have = 1; have < group.size; have *= 2) {
    const u32 more = std::min(have, group.size - have);
    builder.send(group.rank_of(group.before(have)), held(0, more));
    builder.receive(group.rank_of(group.after(have)), held(have, have + more));
    builder.end_round();
  }
  for (u32 block = problem.in_place ? 1 : 0; block < group.size; ++block)
    builder.copy(held(block, block + 1), out(turned[block]));
  return builder.finish();
}

}  // namespace softib::coll
