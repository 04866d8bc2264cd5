// First within hosts; then one rank of each host, its first one, gives the network what it has and gets the result;
// then within hosts again.
#include "coll/schedule/algorithms.h"
#include "coll/schedule/hosts.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

// The first member of each host, whatever the root: who has the queue pair to the network.
constexpr u32 any_root = 0;

// One member has everything already.
Schedule copy_of_one(const Problem& problem) {
  Builder builder;
  if (!problem.in_place && !problem.input.empty()) builder.copy(in(problem.input[0]), out(problem.output[0]));
  return builder.finish();
}

}  // namespace

Schedule all_reduce_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_one(problem);
  Builder builder;
  const Hosts hosts(problem);
  const Group local = hosts.local();
  const u32 leader = hosts.local_leader(any_root);
  const Span own = in(problem.input[0]);
  const Span result = out(problem.output[0]);
  if (local.size > 1) direct_reduce(builder, local, leader, own, result, false);
  if (local.index == leader) builder.aggregate(local.size > 1 ? result : own, result, true);
  builder.end_round();
  direct_broadcast(builder, local, leader, result);
  return builder.finish();
}

Schedule reduce_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_one(problem);
  Builder builder;
  const Hosts hosts(problem);
  const Group local = hosts.local();
  const u32 leader = hosts.local_leader(any_root);
  const bool root = problem.group.index == problem.root;
  const bool leads = local.index == leader;
  const Span own = in(problem.input[0]);
  const Span result = root || !leads ? out(problem.output[0]) : builder.new_scratch(own.count);
  if (local.size > 1) direct_reduce(builder, local, leader, own, result, false);
  if (leads) builder.aggregate(local.size > 1 ? result : own, result, true);
  builder.end_round();
  const bool hands_on = hosts.host_of(problem.root) == hosts.host_of(problem.group.index);
  if (hands_on && leads && !root) builder.send(problem.group.rank_of(problem.root), result);
  if (root && !leads) builder.receive(local.rank_of(leader), result);
  return builder.finish();
}

Schedule broadcast_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_one(problem);
  Builder builder;
  const Hosts hosts(problem);
  const Group local = hosts.local();
  const u32 leader = hosts.local_leader(any_root);
  const bool root = problem.group.index == problem.root;
  const bool leads = local.index == leader;
  const Span result = out(problem.output[0]);
  const Span whole = root ? in(problem.input[0]) : result;
  const bool has_root = hosts.host_of(problem.root) == hosts.host_of(problem.group.index);
  if (root && !problem.in_place) builder.copy(whole, result);
  if (root && !leads) builder.send(local.rank_of(leader), whole);
  if (has_root && leads && !root) builder.receive(problem.group.rank_of(problem.root), result);
  builder.end_round();
  if (leads) builder.aggregate(has_root ? result : Span{Buffer::output, result.offset, 0}, result, false);
  builder.end_round();
  for (u32 member = 0; member < local.size; ++member) {
    const u32 rank = local.rank_of(member);
    if (leads && member != leader && rank != problem.group.rank_of(problem.root)) builder.send(rank, result);
  }
  if (!leads && !root) builder.receive(local.rank_of(leader), result);
  return builder.finish();
}

Schedule barrier_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_one(problem);
  Builder builder;
  const Hosts hosts(problem);
  const Group local = hosts.local();
  const u32 leader = hosts.local_leader(any_root);
  const bool leads = local.index == leader;
  const auto with_others = [&](void (Builder::*signal)(u32 peer)) {
    for (u32 member = 0; member < local.size; ++member)
      if (leads ? member != leader : member == leader) (builder.*signal)(local.rank_of(member));
    builder.end_round();
  };
  with_others(leads ? &Builder::receive_signal : &Builder::send_signal);
  if (leads) builder.aggregate_signal();
  builder.end_round();
  with_others(leads ? &Builder::send_signal : &Builder::receive_signal);
  return builder.finish();
}

}  // namespace softib::coll
