#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

// Spans of blocks that `whole` is cut into.
Place place_within(Span whole, Blocks blocks) {
  return
      [whole, blocks = std::move(blocks)](u32 block) { return whole.part(blocks[block].offset, blocks[block].count); };
}

RangePlace range_within(Span whole, Blocks blocks) {
  return [whole, blocks = std::move(blocks)](u32 first, u32 last) {
    const Range range = joined(blocks, first, last);
    return whole.part(range.offset, range.count);
  };
}

}  // namespace

Schedule copy_of_input(const Problem& problem) {
  Builder builder;
  if (!problem.in_place && !problem.input.empty()) builder.copy(in(problem.input[0]), out(problem.output[0]));
  return builder.finish();
}

void ring_reduce_scatter(Builder& builder, const Group& group, const Place& own, const Place& partial, bool complete) {
  for (u32 step = 1; step < group.size; ++step) {
    const u32 give = group.before(step);
    const u32 take = group.before(step + 1);
    builder.send(group.rank_of(group.after(1)), step == 1 ? own(give) : partial(give));
    builder.receive_reduce(group.rank_of(group.before(1)), own(take), partial(take),
                           complete && step + 1 == group.size);
    builder.end_round();
  }
}

void ring_all_gather(Builder& builder, const Group& group, Span own, const Place& place) {
  for (u32 step = 0; step + 1 < group.size; ++step) {
    const u32 give = group.before(step);
    builder.send(group.rank_of(group.after(1)), step == 0 ? own : place(give));
    builder.receive(group.rank_of(group.before(1)), place(group.before(step + 1)));
    builder.end_round();
  }
}

// Each begins with its neighbour, so that nobody is asked by all at once.
void direct_reduce_scatter(Builder& builder, const Group& group, const Place& own, Span result, bool complete,
                           Lending lending) {
  std::vector<Span> operands(group.size, own(group.index));
  for (u32 step = 1; step < group.size; ++step) {
    Span& arrival = operands[group.before(step)];
    arrival = builder.new_scratch(result.count);
    const u32 to = group.rank_of(group.after(step));
    const u32 from = group.rank_of(group.before(step));
    if (lending == Lending::yes) {
      builder.send_lent(to, own(group.after(step)));
      builder.receive_lent(from, arrival);
    } else {
      builder.send(to, own(group.after(step)));
      builder.receive(from, arrival);
    }
  }
  builder.end_round();
  builder.reduce(operands, result, complete);
  builder.end_round();
}

void direct_all_gather(Builder& builder, const Group& group, Span own, const Place& place) {
  for (u32 step = 1; step < group.size; ++step) {
    builder.send(group.rank_of(group.after(step)), own);
    builder.receive(group.rank_of(group.before(step)), place(group.before(step)));
  }
  builder.end_round();
}

void halving_reduce_scatter(Builder& builder, const Group& group, const Fold& fold, std::span<const Halving> rounds,
                            const RangePlace& own, const RangePlace& partial, const RangePlace& last, bool complete) {
  for (const Halving& round : rounds) {
    const bool ends = &round == &rounds.back();
    const RangePlace& source = &round == &rounds.front() ? own : partial;
    const RangePlace& target = ends ? last : partial;
    const u32 peer = group.rank_of(fold.member(round.peer));
    builder.send(peer, source(round.give_first, round.give_last));
    builder.receive_reduce(peer, source(round.keep_first, round.keep_last), target(round.keep_first, round.keep_last),
                           complete && ends);
    builder.end_round();
  }
}

void doubling_all_gather(Builder& builder, const Group& group, const Fold& fold, std::span<const Halving> rounds,
                         const RangePlace& place) {
  for (std::size_t i = rounds.size(); i-- > 0;) {
    const Halving& round = rounds[i];
    const u32 peer = group.rank_of(fold.member(round.peer));
    builder.send(peer, place(round.keep_first, round.keep_last));
    builder.receive(peer, place(round.give_first, round.give_last));
    builder.end_round();
  }
}

void ring_all_reduce(Builder& builder, const Group& group, Span own, Span result, u64 granule, bool complete) {
  const Blocks blocks = even_blocks({0, own.count}, group.size, granule);
  const Place place = place_within(result, blocks);
  ring_reduce_scatter(builder, group, place_within(own, blocks), place, complete);
  ring_all_gather(builder, group, place(group.index), place);
}

void halving_doubling_all_reduce(Builder& builder, const Group& group, Span own, Span result, u64 granule,
                                 bool complete) {
  const Fold fold(group.size, group.index);
  if (!fold.place()) {
    const u32 partner = group.rank_of(*fold.partner());
    builder.send(partner, own);
    builder.end_round();
    builder.receive(partner, result);
    builder.end_round();
    return;
  }
  Span source = own;
  if (fold.partner()) {
    builder.receive_reduce(group.rank_of(*fold.partner()), own, result, false);
    builder.end_round();
    source = result;
  }
  const Blocks blocks = even_blocks({0, own.count}, fold.core_size(), granule);
  const std::vector<Halving> rounds = halvings(fold.core_size(), *fold.place(), Order::near_first);
  const RangePlace place = range_within(result, blocks);
  halving_reduce_scatter(builder, group, fold, rounds, range_within(source, blocks), place, place, complete);
  doubling_all_gather(builder, group, fold, rounds, place);
  if (fold.partner()) builder.send(group.rank_of(*fold.partner()), result);
  builder.end_round();
}

void direct_broadcast(Builder& builder, const Group& group, u32 root, Span whole) {
  if (group.index != root) builder.receive(group.rank_of(root), whole);
  for (u32 step = 1; group.index == root && step < group.size; ++step)
    builder.send(group.rank_of(group.after(step)), whole);
  builder.end_round();
}

void direct_reduce(Builder& builder, const Group& group, u32 root, Span own, Span result, bool complete) {
  if (group.index != root) {
    builder.send_lent(group.rank_of(root), own);
    builder.end_round();
    return;
  }
  std::vector<Span> operands(group.size, own);
  for (u32 member = 0; member < group.size; ++member) {
    if (member == root) continue;
    operands[member] = builder.new_scratch(own.count);
    builder.receive_lent(group.rank_of(member), operands[member]);
  }
  builder.end_round();
  builder.reduce(operands, result, complete);
  builder.end_round();
}

void binomial_broadcast(Builder& builder, const Group& group, u32 root, Span whole) {
  const Group rotated = group.from(root);
  const TreeNode node = binomial_node(rotated.size, rotated.index);
  if (node.parent) builder.receive(rotated.rank_of(*node.parent), whole);
  builder.end_round();
  for (const u32 child : node.children) builder.send(rotated.rank_of(child), whole);
  builder.end_round();
}

Span binomial_reduce(Builder& builder, const Group& group, u32 root, Span own, Span result, bool complete) {
  const Group rotated = group.from(root);
  const TreeNode node = binomial_node(rotated.size, rotated.index);
  Span sum = own;
  Span room = result;
  if (node.parent && !node.children.empty()) room = builder.new_scratch(own.count);
  // Small subtrees are ready first.
  for (std::size_t i = node.children.size(); i-- > 0;) {
    builder.receive_reduce(rotated.rank_of(node.children[i]), sum, room, complete && !node.parent && i == 0);
    builder.end_round();
    sum = room;
  }
  if (node.parent) builder.send(rotated.rank_of(*node.parent), sum);
  builder.end_round();
  return sum;
}

}  // namespace softib::coll
