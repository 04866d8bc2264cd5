// All algorithms: one function per way of doing a collective, from what one rank knows to its schedule. They are pure:
// the same problem gives the same steps, and so the same bits in the result, however messages are timed.
//
// With n ranks, k = log2(n) rounded up, and m the bytes of the whole (all_to_all: of one rank's input):
//
//   collective      algorithm              rounds of messages   bytes that a rank sends
//   all_reduce      ring                   2(n - 1)             2m(n - 1)/n
//                   recursive_doubling     k                    mk
//                   halving_doubling       2k                   2m(n - 1)/n
//                   double_tree            about 2k             2m(n - 1)/n on average, at most 2m
//                   direct                 2                    2m(n - 1)/n
//                   one_shot               1                    m(n - 1)
//                   hierarchical           by hosts: direct, between them ring or halving_doubling, direct
//                   innetwork              by hosts: direct, between them the network, direct
//   all_gather      ring                   n - 1                m(n - 1)/n
//                   recursive_doubling     k                    m(n - 1)/n
//                   bruck                  k                    m(n - 1)/n
//                   direct                 1                    m(n - 1)/n
//   reduce_scatter  ring, pairwise         n - 1                m(n - 1)/n
//                   recursive_halving      k                    m(n - 1)/n
//                   direct                 1                    m(n - 1)/n
//   broadcast       binomial               k                    root: mk
//                   chain                  n - 1                m
//                   scatter_all_gather     k + n - 1            2m(n - 1)/n
//                   direct                 1                    root: m(n - 1)
//   reduce          binomial               k                    m
//                   chain                  n - 1                m
//                   reduce_scatter_gather  n                    m
//                   direct                 1                    m
//   gather, scatter binomial               k                    blocks of the subtree
//                   direct                 1                    its block; a scatter's root all but its own
//   all_to_all      pairwise               n - 1                m(n - 1)/n
//                   bruck                  k                    about mk/2
//                   direct                 1                    m(n - 1)/n
//   barrier         dissemination          k                    none
//
// innetwork, which reduce, broadcast and barrier have too, wants aggregation nodes in the network: a host sends and
// gets the whole once, whatever the number of hosts.
//
// Hierarchical forms of all_gather, reduce_scatter, broadcast and reduce send each block, or the whole, once to each
// host that needs it. Where n is no power of two, recursive_doubling, halving_doubling and recursive_halving take two
// rounds more, and members in pairs send up to m more.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coll/schedule/problem.h"

namespace softib::coll {

enum class Collective : u8 {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,
};

enum class Algorithm : u8 {
  ring,
  recursive_doubling,
  halving_doubling,
  double_tree,
  direct,
  one_shot,
  hierarchical,
  bruck,
  pairwise,
  recursive_halving,
  binomial,
  chain,
  scatter_all_gather,
  reduce_scatter_gather,
  dissemination,
  innetwork,
};

[[nodiscard]] std::string_view name_of(Collective collective);
[[nodiscard]] std::string_view name_of(Algorithm algorithm);
// As above, or as NCCL writes it: "AllReduce".
[[nodiscard]] std::optional<Collective> collective_from_name(std::string_view name);
// None: there is no such. NCCL's "Tree" is the double tree where there is one, else the binomial one.
[[nodiscard]] std::vector<Algorithm> algorithms_from_name(std::string_view name);

[[nodiscard]] std::string algorithm_names_for(Collective collective);  // "binomial, direct"

// Do all blocks have to be of one count?
enum class Counts : u8 { any, equal };

struct AlgorithmRow {
  Collective collective;
  Algorithm algorithm;
  Schedule (*schedule)(const Problem& problem);
  Counts counts = Counts::any;
  u32 least_lanes = 1;  // below that a part of its idea is lost
};

[[nodiscard]] std::span<const AlgorithmRow> algorithms();
// nullptr: that collective isn't done so.
[[nodiscard]] const AlgorithmRow* find_algorithm(Collective collective, Algorithm algorithm);

// Schedules that may run at the same time on one problem: each does its slice of every block, over the same buffers.
// Each has a scratch of its own, and its messages an order of their own.
[[nodiscard]] std::vector<Schedule> make_lanes(const AlgorithmRow& row, const Problem& problem, u32 lanes);

// all_reduce
[[nodiscard]] Schedule all_reduce_ring(const Problem& problem);
[[nodiscard]] Schedule all_reduce_recursive_doubling(const Problem& problem);
[[nodiscard]] Schedule all_reduce_halving_doubling(const Problem& problem);
[[nodiscard]] Schedule all_reduce_double_tree(const Problem& problem);
[[nodiscard]] Schedule all_reduce_direct(const Problem& problem);
[[nodiscard]] Schedule all_reduce_one_shot(const Problem& problem);
[[nodiscard]] Schedule all_reduce_hierarchical(const Problem& problem);
[[nodiscard]] Schedule all_reduce_innetwork(const Problem& problem);

[[nodiscard]] Schedule all_gather_ring(const Problem& problem);
[[nodiscard]] Schedule all_gather_recursive_doubling(const Problem& problem);
[[nodiscard]] Schedule all_gather_bruck(const Problem& problem);
[[nodiscard]] Schedule all_gather_direct(const Problem& problem);
[[nodiscard]] Schedule all_gather_hierarchical(const Problem& problem);

[[nodiscard]] Schedule reduce_scatter_ring(const Problem& problem);
[[nodiscard]] Schedule reduce_scatter_recursive_halving(const Problem& problem);
[[nodiscard]] Schedule reduce_scatter_pairwise(const Problem& problem);
[[nodiscard]] Schedule reduce_scatter_direct(const Problem& problem);
[[nodiscard]] Schedule reduce_scatter_hierarchical(const Problem& problem);

[[nodiscard]] Schedule broadcast_binomial(const Problem& problem);
[[nodiscard]] Schedule broadcast_chain(const Problem& problem);
[[nodiscard]] Schedule broadcast_scatter_all_gather(const Problem& problem);
[[nodiscard]] Schedule broadcast_direct(const Problem& problem);
[[nodiscard]] Schedule broadcast_hierarchical(const Problem& problem);
[[nodiscard]] Schedule broadcast_innetwork(const Problem& problem);

[[nodiscard]] Schedule reduce_binomial(const Problem& problem);
[[nodiscard]] Schedule reduce_chain(const Problem& problem);
[[nodiscard]] Schedule reduce_reduce_scatter_gather(const Problem& problem);
[[nodiscard]] Schedule reduce_direct(const Problem& problem);
[[nodiscard]] Schedule reduce_hierarchical(const Problem& problem);
[[nodiscard]] Schedule reduce_innetwork(const Problem& problem);

[[nodiscard]] Schedule gather_binomial(const Problem& problem);
[[nodiscard]] Schedule gather_direct(const Problem& problem);
[[nodiscard]] Schedule scatter_binomial(const Problem& problem);
[[nodiscard]] Schedule scatter_direct(const Problem& problem);

[[nodiscard]] Schedule all_to_all_pairwise(const Problem& problem);
[[nodiscard]] Schedule all_to_all_bruck(const Problem& problem);
[[nodiscard]] Schedule all_to_all_direct(const Problem& problem);

[[nodiscard]] Schedule barrier_dissemination(const Problem& problem);
[[nodiscard]] Schedule barrier_innetwork(const Problem& problem);

// Point to point, all messages at once: blocks of the input to members, blocks of the output from members. Messages
// between the same two go in the order of the lists. A message to oneself is a copy, and needs both sides of it.
struct Message {
  u32 member = 0;
  Range range;
};
[[nodiscard]] Schedule exchange(const Group& group, std::span<const Message> sends, std::span<const Message> receives);

}  // namespace softib::coll
