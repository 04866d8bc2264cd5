#include "coll/schedule/algorithms.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

struct AllReduce {
  Span own;
  Span result;
};

AllReduce spans_of(const Problem& problem) { return {in(problem.input[0]), out(problem.output[0])}; }

// Where each of `writes` combinations goes: by turns to the output and to scratch, so that none writes what goes out in
// the same round. The last one goes to the output, unless the first would then write the input that is being sent.
std::vector<Span> by_turns(Builder& builder, Span result, std::size_t writes, bool first_reads_result) {
  std::vector<Span> places(writes, result);
  const bool shifted = first_reads_result && writes % 2 == 1;
  if (writes == 1 && !shifted) return places;
  const Span room = builder.new_scratch(result.count);
  for (std::size_t i = 0; i < writes; ++i)
    if ((writes - i) % 2 == (shifted ? 1 : 0)) places[i] = room;
  return places;
}

// Up the tree: my part and those of my children, in one combination.
Span collect(Builder& builder, const Group& group, const TreeNode& node, const AllReduce& spans) {
  const bool complete = !node.parent;
  if (node.children.empty()) return spans.own;
  if (node.children.size() == 1) {
    builder.receive_reduce(group.rank_of(node.children[0]), spans.own, spans.result, complete);
    builder.end_round();
    return spans.result;
  }
  std::vector<Span> operands{spans.own};
  for (const u32 child : node.children) {
    operands.push_back(builder.new_scratch(spans.own.count));
    builder.receive_lent(group.rank_of(child), operands.back());
  }
  builder.end_round();
  builder.reduce(operands, spans.result, complete);
  builder.end_round();
  return spans.result;
}

}  // namespace

Schedule all_reduce_ring(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const auto [own, result] = spans_of(problem);
  ring_all_reduce(builder, problem.group, own, result, problem.granule, true);
  return builder.finish();
}

Schedule all_reduce_halving_doubling(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const auto [own, result] = spans_of(problem);
  halving_doubling_all_reduce(builder, problem.group, own, result, problem.granule, true);
  return builder.finish();
}

Schedule all_reduce_recursive_doubling(const Problem& problem) {
  const Group& group = problem.group;
  if (group.size == 1) return copy_of_input(problem);
  Builder builder;
  const auto [own, result] = spans_of(problem);
  const Fold fold(group.size, group.index);
  const u32 partner = fold.partner() ? group.rank_of(*fold.partner()) : 0;
  if (!fold.place()) {
    builder.send(partner, own);
    builder.end_round();
    builder.receive(partner, result);
    return builder.finish();
  }
  const std::size_t writes = log2_below(fold.core_size()) + (fold.partner() ? 1 : 0);
  const std::vector<Span> places = by_turns(builder, result, writes, problem.in_place && !fold.partner());
  auto place = places.begin();
  Span sum = own;
  if (fold.partner()) {
    builder.receive_reduce(partner, sum, *place, false);
    builder.end_round();
    sum = *place++;
  }
  for (u32 distance = 1; distance < fold.core_size(); distance *= 2) {
    const u32 peer = group.rank_of(fold.member(*fold.place() ^ distance));
    builder.send(peer, sum);
    builder.receive_reduce(peer, sum, *place, 2 * distance == fold.core_size());
    builder.end_round();
    sum = *place++;
  }
  if (fold.partner()) builder.send(partner, sum);
  builder.copy(sum, result);
  return builder.finish();
}

Schedule all_reduce_double_tree(const Problem& problem) {
  const Group& group = problem.group;
  if (group.size == 1) return copy_of_input(problem);
  Builder builder;
  const AllReduce spans = spans_of(problem);
  const TreeNode node = double_tree_node(group.size, group.index, problem.lane % 2 == 1);
  const Span sum = collect(builder, group, node, spans);
  if (node.parent) {
    const bool second = problem.lane % 2 == 1;
    if (double_tree_node(group.size, *node.parent, second).children.size() > 1)
      builder.send_lent(group.rank_of(*node.parent), sum);
    else
      builder.send(group.rank_of(*node.parent), sum);
    builder.end_round();
    builder.receive(group.rank_of(*node.parent), spans.result);
    builder.end_round();
  }
  for (const u32 child : node.children) builder.send(group.rank_of(child), spans.result);
  return builder.finish();
}

Schedule all_reduce_direct(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const Blocks blocks = even_blocks(problem.input[0], problem.group.size, problem.granule);
  const Blocks results = even_blocks(problem.output[0], problem.group.size, problem.granule);
  const Span mine = out(results[problem.group.index]);
  direct_reduce_scatter(
      builder, problem.group, [&](u32 block) { return in(blocks[block]); }, mine, true, Lending::yes);
  direct_all_gather(builder, problem.group, mine, [&](u32 block) { return out(results[block]); });
  return builder.finish();
}

// Everybody gets everything and combines it in the order of ranks. Nothing is lent: ranks in place could not, and
// whether others are is not known.
Schedule all_reduce_one_shot(const Problem& problem) {
  const Group& group = problem.group;
  if (group.size == 1) return copy_of_input(problem);
  Builder builder;
  const auto [own, result] = spans_of(problem);
  direct_reduce_scatter(
      builder, group, [own = own](u32) { return own; }, result, true, Lending::no);
  return builder.finish();
}

}  // namespace softib::coll
