#include <algorithm>

#include "coll/schedule/algorithms.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

// Of binomial trees over equal blocks, counted from the root on: what a subtree holds, one block after the other.
struct Subtrees {
  Group rotated;
  u64 count;  // of each block
  TreeNode node = binomial_node(rotated.size, rotated.index);

  Subtrees(const Problem& problem, u64 block) : rotated(problem.group.from(problem.root)), count(block) {}

  [[nodiscard]] u64 size(u32 member) const { return binomial_node(rotated.size, member).subtree * count; }
  // Where a child's part lies within mine.
  [[nodiscard]] Span part(Span mine, u32 child) const {
    return mine.part((child - rotated.index) * count, size(child));
  }
};

// Each block between its place in the root's buffer and its turn in scratch.
template <typename Copy>
void for_each_turned(const Problem& problem, const Blocks& blocks, Span room, const Copy& copy) {
  for (u32 turn = 0; turn < problem.group.size; ++turn) {
    const Range block = blocks[(problem.root + turn) % problem.group.size];
    copy(block, room.part(turn * block.count, block.count));
  }
}

// Does the root's buffer hold the blocks in the order of the tree?
bool in_tree_order(const Problem& problem, const Blocks& blocks) { return problem.root == 0 && adjoin(blocks); }

}  // namespace

Schedule gather_direct(const Problem& problem) {
  Builder builder;
  const Group& group = problem.group;
  if (group.index != problem.root) {
    builder.send(group.rank_of(problem.root), in(problem.input[0]));
    return builder.finish();
  }
  if (!problem.in_place) builder.copy(in(problem.input[0]), out(problem.output[group.index]));
  for (u32 step = 1; step < group.size; ++step)
    builder.receive(group.rank_of(group.after(step)), out(problem.output[group.after(step)]));
  return builder.finish();
}

Schedule scatter_direct(const Problem& problem) {
  Builder builder;
  const Group& group = problem.group;
  if (group.index != problem.root) {
    builder.receive(group.rank_of(problem.root), out(problem.output[0]));
    return builder.finish();
  }
  if (!problem.in_place) builder.copy(in(problem.input[group.index]), out(problem.output[0]));
  for (u32 step = 1; step < group.size; ++step)
    builder.send(group.rank_of(group.after(step)), in(problem.input[group.after(step)]));
  return builder.finish();
}

Schedule gather_binomial(const Problem& problem) {
  Builder builder;
  const Span own = in(problem.input[0]);
  const Subtrees tree(problem, own.count);
  const bool root = problem.group.index == problem.root;
  const bool ordered = root && in_tree_order(problem, problem.output);
  Span mine = own;
  if (ordered)
    mine = out(joined(problem.output, 0, problem.group.size));
  else if (root || !tree.node.children.empty())
    mine = builder.new_scratch(tree.size(tree.rotated.index));
  if (mine.buffer != Buffer::input && !(ordered && problem.in_place)) builder.copy(own, mine.part(0, own.count));
  for (const u32 child : tree.node.children) builder.receive(tree.rotated.rank_of(child), tree.part(mine, child));
  builder.end_round();
  if (!root) builder.send(tree.rotated.rank_of(*tree.node.parent), mine);
  if (root && !ordered)
    for_each_turned(problem, problem.output, mine, [&](Range block, Span turned) { builder.copy(turned, out(block)); });
  return builder.finish();
}

Schedule scatter_binomial(const Problem& problem) {
  Builder builder;
  const Span own = out(problem.output[0]);
  const Subtrees tree(problem, own.count);
  const bool root = problem.group.index == problem.root;
  Span mine = own;
  if (root && in_tree_order(problem, problem.input)) {
    mine = in(joined(problem.input, 0, problem.group.size));
  } else if (root || !tree.node.children.empty()) {
    mine = builder.new_scratch(tree.size(tree.rotated.index));
  }
  if (root && mine.buffer == Buffer::scratch)
    for_each_turned(problem, problem.input, mine, [&](Range block, Span turned) { builder.copy(in(block), turned); });
  if (!root) builder.receive(tree.rotated.rank_of(*tree.node.parent), mine);
  builder.end_round();
  for (const u32 child : tree.node.children) builder.send(tree.rotated.rank_of(child), tree.part(mine, child));
  if (!(root && problem.in_place)) builder.copy(mine.part(0, own.count), own);
  return builder.finish();
}

}  // namespace softib::coll
