// Roots and ranks. In a tree with hosts at the leaves the roots are the switches farthest from any host; elsewhere one
// switch in the middle is the root, which up/down routing can always do with.
#include <fmt/format.h>

#include <algorithm>

#include "sm/routing.h"

namespace softib::sm {

namespace {

std::vector<u32> leaves_of(const Graph& graph) {
  std::vector<u32> leaves;
  for (u32 sw = 0; sw < graph.switches; ++sw)
    if (graph.hosts[sw] != 0) leaves.push_back(sw);
  return leaves;
}

u8 highest(const std::vector<u8>& hops) {
  u8 most = 0;
  for (const u8 hop : hops)
    if (hop != unreachable) most = std::max(most, hop);
  return most;
}

// Farthest from the hosts; none where each switch has hosts.
std::vector<u32> tree_roots(const Graph& graph) {
  const std::vector<u8> hops = hops_from(graph, leaves_of(graph));
  const u8 most = highest(hops);
  std::vector<u32> roots;
  for (u32 sw = 0; most != 0 && sw < graph.switches; ++sw)
    if (hops[sw] == most) roots.push_back(sw);
  return roots;
}

// The switch from which the farthest is nearest, among at most 64 candidates.
u32 middle(const Graph& graph) {
  const u32 step = std::max<u32>(1, graph.switches / 64);
  u32 best = 0;
  u64 best_score = ~u64{0};
  for (u32 sw = 0; sw < graph.switches; sw += step) {
    const std::vector<u8> hops = hops_from(graph, {sw});
    u64 sum = 0;
    for (const u8 hop : hops) sum += hop;
    const u64 score = u64{highest(hops)} << 32 | sum;
    if (score < best_score) {
      best_score = score;
      best = sw;
    }
  }
  return best;
}

Ranks ranks_from(const Graph& graph, const std::vector<u32>& roots) {
  Ranks ranks{hops_from(graph, roots), std::vector<u32>(graph.switches)};
  for (u32 sw = 0; sw < graph.switches; ++sw) ranks.key[sw] = u32{ranks.rank[sw]} << 16 | sw;
  return ranks;
}

// Does each pair of switches with hosts have a way up and then down? It does if the switches above each leaf include a
// common one with each other leaf; `above` is a bit set over the roots.
bool connects(const Graph& graph, const Ranks& ranks, const std::vector<u32>& roots) {
  const std::size_t words = (roots.size() + 63) / 64;
  std::vector<u64> above(graph.switches * words, 0);
  for (std::size_t i = 0; i < roots.size(); ++i) above[roots[i] * words + i / 64] |= u64{1} << i % 64;
  std::vector<u32> order(graph.switches);
  for (u32 sw = 0; sw < graph.switches; ++sw) order[sw] = sw;
  std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return ranks.key[a] < ranks.key[b]; });
  for (const u32 sw : order)
    for (const auto* edge = graph.begin(sw); edge != graph.end(sw); ++edge)
      for (std::size_t w = 0; ranks.key[edge->to] < ranks.key[sw] && w < words; ++w)
        above[sw * words + w] |= above[edge->to * words + w];
  const std::vector<u32> leaves = leaves_of(graph);
  for (const u32 a : leaves)
    for (const u32 b : leaves) {
      bool common = a == b;
      for (std::size_t w = 0; !common && w < words; ++w) common = (above[a * words + w] & above[b * words + w]) != 0;
      if (!common) return false;
    }
  return true;
}

}  // namespace

Ranks rank_switches(const Graph& graph) {
  if (graph.switches == 0) return {};
  const std::vector<u32> roots = tree_roots(graph);
  if (!roots.empty()) {
    Ranks ranks = ranks_from(graph, roots);
    if (connects(graph, ranks, roots)) return ranks;
  }
  return ranks_from(graph, {middle(graph)});
}

std::string why_no_fat_tree(const Graph& graph, const Ranks& ranks) {
  u8 lowest = 0;
  for (u32 sw = 0; sw < graph.switches; ++sw)
    if (graph.hosts[sw] != 0) lowest = std::max(lowest, ranks.rank[sw]);
  for (u32 sw = 0; sw < graph.switches; ++sw) {
    if (ranks.rank[sw] == unreachable) return fmt::format("switch {} has no link to the others", sw);
    if (graph.hosts[sw] != 0 && ranks.rank[sw] != lowest) return "hosts are at switches of several levels";
    bool up = ranks.rank[sw] == 0;
    for (const auto* edge = graph.begin(sw); edge != graph.end(sw); ++edge) {
      const int step = int{ranks.rank[edge->to]} - int{ranks.rank[sw]};
      if (step != 1 && step != -1) return "a cable joins two switches of the same level";
      up = up || step == -1;
    }
    if (!up) return "a switch has no cable upwards";
  }
  return {};
}

}  // namespace softib::sm
