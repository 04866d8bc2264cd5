// First within hosts; then one rank of each host, its first one, gives the network what it has and gets the result;
// then within hosts again.
#include "coll/schedule/algorithms.h"
#include "coll/schedule/hosts.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

// What a member is to the others of its host. Whatever the root, the first one of each host leads: it has the queue
// pair to the network.
struct Role {
  explicit Role(const Problem& problem)
      : hosts(problem),
        local(hosts.local()),
        leader(hosts.local_leader(0)),
        leads(local.index == leader),
        root(problem.group.index == problem.root),
        beside_root(hosts.host_of(problem.root) == hosts.host_of(problem.group.index)) {}

  Hosts hosts;
  Group local;
  u32 leader;  // of local
  bool leads;
  bool root;
  bool beside_root;  // on its host, or it itself
};

}  // namespace

Schedule all_reduce_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const Role role(problem);
  const Span own = in(problem.input[0]);
  const Span result = out(problem.output[0]);
  if (role.local.size > 1) direct_reduce(builder, role.local, role.leader, own, result, false);
  if (role.leads) builder.aggregate(role.local.size > 1 ? result : own, result, true);
  builder.end_round();
  direct_broadcast(builder, role.local, role.leader, result);
  return builder.finish();
}

Schedule reduce_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const Role role(problem);
  const Span own = in(problem.input[0]);
  const Span result = role.root || !role.leads ? out(problem.output[0]) : builder.new_scratch(own.count);
  if (role.local.size > 1) direct_reduce(builder, role.local, role.leader, own, result, false);
  if (role.leads) builder.aggregate(role.local.size > 1 ? result : own, result, true);
  builder.end_round();
  if (role.beside_root && role.leads && !role.root) builder.send(problem.group.rank_of(problem.root), result);
  if (role.root && !role.leads) builder.receive(role.local.rank_of(role.leader), result);
  return builder.finish();
}

Schedule broadcast_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const Role role(problem);
  const Span result = out(problem.output[0]);
  const Span whole = role.root ? in(problem.input[0]) : result;
  if (role.root && !problem.in_place) builder.copy(whole, result);
  if (role.root && !role.leads) builder.send(role.local.rank_of(role.leader), whole);
  if (role.beside_root && role.leads && !role.root) builder.receive(problem.group.rank_of(problem.root), result);
  builder.end_round();
  if (role.leads) builder.aggregate(role.beside_root ? result : Span{Buffer::output, result.offset, 0}, result, false);
  builder.end_round();
  for (u32 member = 0; member < role.local.size; ++member) {
    const u32 rank = role.local.rank_of(member);
    if (role.leads && member != role.leader && rank != problem.group.rank_of(problem.root)) builder.send(rank, result);
  }
  if (!role.leads && !role.root) builder.receive(role.local.rank_of(role.leader), result);
  return builder.finish();
}

Schedule barrier_innetwork(const Problem& problem) {
  if (problem.group.size == 1) return copy_of_input(problem);
  Builder builder;
  const Role role(problem);
  const auto with_others = [&](void (Builder::*signal)(u32 peer)) {
    for (u32 member = 0; member < role.local.size; ++member)
      if (role.leads ? member != role.leader : member == role.leader) (builder.*signal)(role.local.rank_of(member));
    builder.end_round();
  };
  with_others(role.leads ? &Builder::receive_signal : &Builder::send_signal);
  if (role.leads) builder.aggregate_signal();
  builder.end_round();
  with_others(role.leads ? &Builder::send_signal : &Builder::receive_signal);
  return builder.finish();
}

}  // namespace softib::coll
