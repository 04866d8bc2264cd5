// All-gather and reduce-scatter by host and rail: between hosts each block goes once to each other host, by the ranks
// of equal place. Where hosts have different numbers of ranks there are no rails, and the ring does it.
#include "coll/schedule/algorithms.h"
#include "coll/schedule/hosts.h"
#include "coll/schedule/phases.h"

namespace softib::coll {

namespace {

// For each member of my host the contributions to the blocks of its rail; mine are combined, host by host. Gives where
// each sum lies: one host's sum is the result.
std::vector<Span> reduce_within_host(Builder& builder, const Problem& problem, const Hosts& hosts) {
  const Group local = hosts.local();
  const auto contribution = [&](u32 host, u32 place) { return in(problem.input[hosts.member(host, place)]); };
  std::vector<Span> sums;
  std::vector<std::vector<Span>> operands;
  for (u32 host = 0; host < hosts.count(); ++host) operands.emplace_back(local.size, contribution(host, local.index));
  if (local.size == 1) {
    for (const auto& own : operands) sums.push_back(own[0]);
    return sums;
  }
  for (u32 step = 1; step < local.size; ++step)
    for (u32 host = 0; host < hosts.count(); ++host) {
      const u32 source = local.before(step);
      Span& arrival = operands[host][source];
      arrival = builder.new_scratch(arrival.count);
      builder.send_lent(local.rank_of(local.after(step)), contribution(host, local.after(step)));
      builder.receive_lent(local.rank_of(source), arrival);
    }
  builder.end_round();
  const bool alone = hosts.count() == 1;
  for (const auto& of_host : operands) {
    sums.push_back(alone ? out(problem.output[0]) : builder.new_scratch(of_host[0].count));
    builder.reduce(of_host, sums.back(), alone);
  }
  builder.end_round();
  return sums;
}

}  // namespace

Schedule all_gather_hierarchical(const Problem& problem) {
  const Hosts hosts(problem);
  if (!hosts.equal()) return all_gather_ring(problem);
  Builder builder;
  if (!problem.in_place) builder.copy(in(problem.input[0]), out(problem.output[problem.group.index]));
  const Group local = hosts.local();
  const auto block = [&](u32 host, u32 place) { return out(problem.output[hosts.member(host, place)]); };
  direct_all_gather(builder, hosts.rail(), in(problem.input[0]), [&](u32 host) { return block(host, local.index); });
  for (u32 step = 1; step < local.size; ++step)
    for (u32 host = 0; host < hosts.count(); ++host) {
      builder.send(local.rank_of(local.after(step)), block(host, local.index));
      builder.receive(local.rank_of(local.before(step)), block(host, local.before(step)));
    }
  return builder.finish();
}

Schedule reduce_scatter_hierarchical(const Problem& problem) {
  const Hosts hosts(problem);
  if (!hosts.equal() || problem.group.size == 1) return reduce_scatter_ring(problem);
  Builder builder;
  const std::vector<Span> sums = reduce_within_host(builder, problem, hosts);
  if (hosts.count() > 1)
    direct_reduce_scatter(
        builder, hosts.rail(), [&sums](u32 host) { return sums[host]; }, out(problem.output[0]), true, Lending::yes);
  return builder.finish();
}

}  // namespace softib::coll
