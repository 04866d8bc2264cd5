#include "coll/tune/model.h"

#include <algorithm>
#include <bit>
#include <map>

#include "coll/schedule/partners.h"

namespace softib::coll {

namespace {

using C = Collective;
using A = Algorithm;

constexpr LinkRow link_table[]{
    {Way::shm, 0.15, 0.05, 1.0 / 12000, u64{1} << 20, u64{256} << 10, 4},
    {Way::verbs, 3.0, 0.5, 1.0 / 10000, u64{1} << 20, u64{512} << 10, 4},
    {Way::tcp, 30.0, 5.0, 1.0 / 2000, u64{1} << 20, u64{1} << 20, 4},
};

// us: reading two, writing one.
constexpr double combine_per_byte = 1.0 / 8000;

// us: into the network and out of it again, by one node on the way; measured, see docs/in-network.md.
constexpr double network_round = 10.0;
constexpr double network_per_byte = 1.0 / 1200;

// What one rank does, the one that has most to do. `bytes` are those that it sends or receives, whichever is more.
struct Effort {
  double rounds = 0;
  double messages = 0;
  double bytes = 0;
  double combined = 0;  // bytes that it reduces
  double lent = 0;      // of `bytes`, those that a reduction reads where they lie, if memory is shared
  // Each host's bytes leave it once for all of its ranks, as in rings whose neighbours are mostly on one host.
  bool frugal = false;
};

struct Size {
  double n;      // ranks
  double k;      // log2(n), rounded up
  double bytes;  // of the whole
  bool power;    // n is a power of two
};

Effort effort_of_all_reduce(A algorithm, const Size& s) {
  const double most = 2 * s.bytes * (s.n - 1) / s.n;
  const double fold = s.power ? 0 : 2;
  switch (algorithm) {
    case A::ring:
      return {2 * (s.n - 1), 2 * (s.n - 1), most, most / 2, 0, true};
    case A::recursive_doubling:
      return {s.k + fold, s.k + fold, s.bytes * (s.k + fold / 2), s.bytes * (s.k + fold / 2)};
    case A::halving_doubling:
      return {2 * s.k + fold, 2 * s.k + fold, most + s.bytes * fold, most / 2 + s.bytes * fold / 2};
    case A::double_tree:
      return {2 * s.k, 6, 2 * s.bytes, 1.5 * s.bytes};
    case A::direct:
      return {2, 2 * (s.n - 1), most, most / 2, most / 2};
    default:  // one_shot
      return {1, s.n - 1, s.bytes * (s.n - 1), s.bytes * (s.n - 1)};
  }
}

// all_gather and reduce_scatter.
Effort effort_of_blocks(A algorithm, const Size& s, bool lends) {
  const double most = s.bytes * (s.n - 1) / s.n;
  const double fold = s.power ? 0 : 2;
  switch (algorithm) {
    case A::ring:
      return {s.n - 1, s.n - 1, most, 0, 0, true};
    case A::pairwise:
      return {s.n - 1, s.n - 1, most};
    case A::recursive_doubling:
    case A::recursive_halving:
      return {s.k + fold, s.k + fold, most + s.bytes * fold / 2};
    case A::bruck:
      return {s.k, s.k, 2 * most};  // and a copy of all
    default:                        // direct
      return {1, s.n - 1, most, 0, lends ? most : 0};
  }
}

// broadcast, reduce, gather, scatter.
Effort effort_of_rooted(const AlgorithmRow& row, const Size& s, double lanes) {
  const bool blocks = row.collective == C::gather || row.collective == C::scatter;
  switch (row.algorithm) {
    case A::chain:  // each lane is a link behind the one before
      return {(s.n - 2 + lanes), lanes, s.bytes * (s.n - 2 + lanes) / lanes, 0, 0, true};
    case A::scatter_all_gather:
      return {s.k + s.n - 1, s.k + s.n - 1, 2 * s.bytes * (s.n - 1) / s.n, 0, 0, true};
    case A::reduce_scatter_gather:
      return {s.n, 2 * s.n, 2 * s.bytes * (s.n - 1) / s.n, 0, 0, true};
    case A::binomial:
      return {s.k, s.k, blocks ? 2 * s.bytes : s.bytes * s.k};
    default:  // direct
      return {1, s.n - 1, blocks ? s.bytes : s.bytes * (s.n - 1), 0,
              row.collective == C::reduce ? s.bytes * (s.n - 1) : 0};
  }
}

Effort effort_of_all_to_all(A algorithm, const Size& s) {
  const double most = s.bytes * (s.n - 1) / s.n;
  if (algorithm == A::bruck) return {s.k, s.k, 2 * s.bytes * s.k};  // sends half of it, after packing
  return {algorithm == A::pairwise ? s.n - 1 : 1, s.n - 1, most};
}

Effort moving_effort(const AlgorithmRow& row, const Size& size, double lanes) {
  switch (row.collective) {
    case C::all_reduce:
      return effort_of_all_reduce(row.algorithm, size);
    case C::all_gather:
    case C::reduce_scatter:
      return effort_of_blocks(row.algorithm, size, row.collective == C::reduce_scatter);
    case C::all_to_all:
      return effort_of_all_to_all(row.algorithm, size);
    case C::barrier:
      return {size.k, size.k, 0};
    default:
      return effort_of_rooted(row, size, lanes);
  }
}

Effort effort_of(const AlgorithmRow& row, const Size& size, double lanes) {
  Effort effort = moving_effort(row, size, lanes);
  // What comes is combined, but for what the root collects at the end.
  if (row.collective == C::reduce || row.collective == C::reduce_scatter)
    effort.combined = row.algorithm == A::reduce_scatter_gather ? effort.bytes / 2 : effort.bytes;
  return effort;
}

Size size_for(double ranks, double bytes) {
  const auto n = static_cast<u32>(ranks);
  return {ranks, static_cast<double>(log2_above(n)), bytes, std::has_single_bit(n)};
}

double time_of(const Effort& effort, const LinkRow& link, double sharers) {
  return effort.rounds * link.round + std::max(0.0, effort.messages - effort.rounds) * link.message +
         (effort.bytes - (link.way == Way::shm ? effort.lent : 0)) * link.per_byte * (effort.frugal ? 1 : sharers) +
         effort.combined * combine_per_byte;
}

// Within the host, between hosts (each rank its share), within again.
double hierarchical_time(const AlgorithmRow& row, const Landscape& landscape, double bytes, double lanes) {
  const double local = landscape.most_on_a_host();
  const AlgorithmRow within{row.collective, A::direct, nullptr};
  const double inside = time_of(effort_of(within, size_for(local, bytes), lanes), link_row(landscape.within), 1);
  const double hosts = landscape.host_count();
  const A best = hosts > 4 ? A::ring : A::halving_doubling;
  const bool all_reduce = row.collective == C::all_reduce;
  const AlgorithmRow across{row.collective, all_reduce ? best : A::ring, nullptr};
  return inside + time_of(effort_of(across, size_for(hosts, bytes / local), lanes), link_row(landscape.between), local);
}

// Within the host; once into the network and once out of it, whatever the number of hosts; within again.
double innetwork_time(const AlgorithmRow& row, const Landscape& landscape, double bytes, double lanes) {
  const double local = landscape.most_on_a_host();
  const bool reduces = row.collective == C::all_reduce || row.collective == C::reduce;
  const AlgorithmRow within{reduces ? C::reduce : row.collective, A::direct, nullptr};
  const double inside =
      local < 2 ? 0 : 2 * time_of(effort_of(within, size_for(local, bytes), lanes), link_row(landscape.within), 1);
  return inside + network_round + bytes * network_per_byte;
}

}  // namespace

u32 Landscape::host_count() const {
  std::map<u32, u32> count;
  for (const u32 host : hosts) ++count[host];
  return std::max<u32>(1, static_cast<u32>(count.size()));
}

u32 Landscape::most_on_a_host() const {
  if (hosts.empty()) return ranks;
  std::map<u32, u32> count;
  u32 most = 0;
  for (const u32 host : hosts) most = std::max(most, ++count[host]);
  return most;
}

const LinkRow& link_row(Way way) { return link_table[static_cast<u8>(way)]; }

double modelled_time(const AlgorithmRow& row, const Landscape& landscape, u64 bytes, u32 lanes) {
  const auto whole = static_cast<double>(bytes);
  if (row.algorithm == A::hierarchical) return hierarchical_time(row, landscape, whole, lanes);
  if (row.algorithm == A::innetwork) return innetwork_time(row, landscape, whole, lanes);
  const bool one_host = landscape.host_count() == 1;
  const LinkRow& link = link_row(one_host ? landscape.within : landscape.between);
  const double sharers = one_host ? 1 : landscape.most_on_a_host();
  return time_of(effort_of(row, size_for(landscape.ranks, whole), lanes), link, sharers);
}

}  // namespace softib::coll
