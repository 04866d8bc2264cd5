// Broadcast and reduce.
#include <algorithm>

#include "coll/schedule/algorithms.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

bool is_root(const Problem& problem) { return problem.group.index == problem.root; }

// What a broadcast sends on: the root its input, which also comes into its output, others what they got.
Span broadcast_source(Builder& builder, const Problem& problem) {
  const Span whole = out(problem.output[0]);
  if (!is_root(problem)) return whole;
  const Span own = in(problem.input[0]);
  if (!problem.in_place) builder.copy(own, whole);
  return own;
}

// Blocks to the members that own them: each gets those of its subtree and sends on what is not its own.
void scatter_to_owners(Builder& builder, const Group& rotated, const Blocks& blocks, Span whole) {
  const TreeNode node = binomial_node(rotated.size, rotated.index);
  const auto subtree = [&](u32 member) {
    const Range range = joined(blocks, member, member + binomial_node(rotated.size, member).subtree);
    return whole.part(range.offset, range.count);
  };
  if (node.parent) builder.receive(rotated.rank_of(*node.parent), subtree(rotated.index));
  builder.end_round();
  for (const u32 child : node.children) builder.send(rotated.rank_of(child), subtree(child));
  builder.end_round();
}

}  // namespace

Schedule broadcast_binomial(const Problem& problem) {
  Builder builder;
  binomial_broadcast(builder, problem.group, problem.root, broadcast_source(builder, problem));
  return builder.finish();
}

Schedule broadcast_direct(const Problem& problem) {
  Builder builder;
  direct_broadcast(builder, problem.group, problem.root, broadcast_source(builder, problem));
  return builder.finish();
}

// From neighbour to neighbour; with many lanes they all send at once.
Schedule broadcast_chain(const Problem& problem) {
  Builder builder;
  const Group chain = problem.group.from(problem.root);
  const Span whole = broadcast_source(builder, problem);
  if (chain.index != 0) builder.receive(chain.rank_of(chain.index - 1), whole);
  builder.end_round();
  if (chain.index + 1 < chain.size) builder.send(chain.rank_of(chain.index + 1), whole);
  return builder.finish();
}

Schedule broadcast_scatter_all_gather(const Problem& problem) {
  Builder builder;
  const Group rotated = problem.group.from(problem.root);
  const Blocks blocks = even_blocks({0, problem.output[0].count}, rotated.size, problem.granule);
  const Span result = out(problem.output[0]);
  const auto place = [&](u32 block) { return result.part(blocks[block].offset, blocks[block].count); };
  const Range mine = blocks[rotated.index];
  const Span source = is_root(problem) ? in(problem.input[0]) : result;
  scatter_to_owners(builder, rotated, blocks, source);
  // The others' blocks come to the root's output by the ring.
  if (is_root(problem) && !problem.in_place) builder.copy(source.part(mine.offset, mine.count), place(rotated.index));
  ring_all_gather(builder, rotated, source.part(mine.offset, mine.count), place);
  return builder.finish();
}

Schedule reduce_binomial(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  binomial_reduce(builder, problem.group, problem.root, in(problem.input[0]), out(problem.output[0]), true);
  return builder.finish();
}

Schedule reduce_direct(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  direct_reduce(builder, problem.group, problem.root, in(problem.input[0]), out(problem.output[0]), true);
  return builder.finish();
}

Schedule reduce_chain(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const Group chain = problem.group.from(problem.root);
  Span sum = in(problem.input[0]);
  if (chain.index + 1 < chain.size) {
    const Span room = is_root(problem) ? out(problem.output[0]) : builder.new_scratch(sum.count);
    builder.receive_reduce(chain.rank_of(chain.index + 1), sum, room, is_root(problem));
    sum = room;
  }
  builder.end_round();
  if (!is_root(problem)) builder.send(chain.rank_of(chain.index - 1), sum);
  return builder.finish();
}

Schedule reduce_reduce_scatter_gather(const Problem& problem) {
  const Group& group = problem.group;
  if (group.size == 1) return copy_of_input(problem);
  Builder builder;
  const Blocks blocks = even_blocks(problem.input[0], group.size, problem.granule);
  const Blocks results = even_blocks(problem.output[0], group.size, problem.granule);
  const u64 largest = blocks[0].count;
  const Span rooms[]{builder.new_scratch(largest), builder.new_scratch(largest)};
  const auto partial = [&](u32 block) {
    if (is_root(problem) && block == group.index) return out(results[block]);
    const u32 step = (group.index + group.size - block - 1) % group.size;
    return rooms[step % 2].part(0, blocks[block].count);
  };
  ring_reduce_scatter(
      builder, group, [&](u32 block) { return in(blocks[block]); }, partial, true);
  if (!is_root(problem)) builder.send(group.rank_of(problem.root), partial(group.index));
  for (u32 step = 1; is_root(problem) && step < group.size; ++step)
    builder.receive(group.rank_of(group.after(step)), out(results[group.after(step)]));
  return builder.finish();
}

}  // namespace softib::coll
