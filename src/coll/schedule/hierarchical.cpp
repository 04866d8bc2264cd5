// First within hosts, then between them. With the same number of ranks on each host, every rank takes its share of the
// data to the ranks of equal place on other hosts, so that all of a host's adapters carry some; else one rank of each
// host, its leader, takes all.
#include "coll/schedule/algorithms.h"
#include "coll/schedule/hosts.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

// The ring sends least where folding would send a part twice.
void reduce_between_hosts(Builder& builder, const Group& group, Span own, Span result, u64 granule) {
  if ((group.size & (group.size - 1)) == 0)
    halving_doubling_all_reduce(builder, group, own, result, granule, true);
  else
    ring_all_reduce(builder, group, own, result, granule, true);
}

void by_rails(Builder& builder, const Problem& problem, const Hosts& hosts) {
  const Group local = hosts.local();
  const Blocks blocks = even_blocks(problem.input[0], local.size, problem.granule);
  const Blocks results = even_blocks(problem.output[0], local.size, problem.granule);
  const Span mine = out(results[local.index]);
  Span share = in(blocks[local.index]);
  if (local.size > 1) {
    direct_reduce_scatter(
        builder, local, [&](u32 block) { return in(blocks[block]); }, mine, hosts.count() == 1, Lending::yes);
    share = mine;
  }
  if (hosts.count() > 1) reduce_between_hosts(builder, hosts.rail(), share, mine, problem.granule);
  direct_all_gather(builder, local, mine, [&](u32 block) { return out(results[block]); });
}

void by_leaders(Builder& builder, const Problem& problem, const Hosts& hosts) {
  const Group local = hosts.local();
  const u32 leader = hosts.local_leader(0);
  const Span own = in(problem.input[0]);
  const Span result = out(problem.output[0]);
  if (local.size > 1) direct_reduce(builder, local, leader, own, result, false);
  if (local.index == leader)
    reduce_between_hosts(builder, hosts.leaders(0), local.size > 1 ? result : own, result, problem.granule);
  direct_broadcast(builder, local, leader, result);
}

}  // namespace

Schedule all_reduce_hierarchical(const Problem& problem) {
  Builder builder;
  const Hosts hosts(problem);
  if (problem.group.size == 1) {
    if (!problem.in_place) builder.copy(in(problem.input[0]), out(problem.output[0]));
  } else if (hosts.equal()) {
    by_rails(builder, problem, hosts);
  } else {
    by_leaders(builder, problem, hosts);
  }
  return builder.finish();
}

Schedule broadcast_hierarchical(const Problem& problem) {
  Builder builder;
  const Hosts hosts(problem);
  const bool root = problem.group.index == problem.root;
  const Span whole = root ? in(problem.input[0]) : out(problem.output[0]);
  if (root && !problem.in_place) builder.copy(whole, out(problem.output[0]));
  const Group local = hosts.local();
  const u32 leader = hosts.local_leader(problem.root);
  if (local.index == leader)
    binomial_broadcast(builder, hosts.leaders(problem.root), hosts.host_of(problem.root), whole);
  direct_broadcast(builder, local, leader, whole);
  return builder.finish();
}

Schedule reduce_hierarchical(const Problem& problem) {
  Builder builder;
  const Hosts hosts(problem);
  const bool root = problem.group.index == problem.root;
  const Group local = hosts.local();
  const u32 leader = hosts.local_leader(problem.root);
  Span sum = in(problem.input[0]);
  Span result = out(problem.output[0]);
  if (!root && local.index == leader && local.size > 1) result = builder.new_scratch(sum.count);
  if (local.size > 1) {
    direct_reduce(builder, local, leader, sum, result, hosts.count() == 1);
    sum = result;
  }
  if (local.index == leader)
    sum = binomial_reduce(builder, hosts.leaders(problem.root), hosts.host_of(problem.root), sum, result, true);
  if (root && sum != result && !problem.in_place) builder.copy(sum, result);
  return builder.finish();
}

}  // namespace softib::coll
