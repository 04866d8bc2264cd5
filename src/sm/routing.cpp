#include "sm/routing.h"

#include <fmt/format.h>

#include <algorithm>

namespace softib::sm {

namespace {

// Ports of one switch that lead to one other switch, and the rest of what choosing one needs.
struct Choice {
  const Graph::Edge* edges[256];
  u32 count = 0;

  void add(const Graph::Edge* edge) { edges[count++] = edge; }
};

// Chooses among candidates by load; for several LIDs of one port, other ports first.
class LeastLoaded {
 public:
  explicit LeastLoaded(const Graph& graph) : load_(graph.edges.size(), 0), graph_(graph) {}

  u8 choose(const Choice& choice, const Graph::Destination& to) {
    if (to.sub == 0) used_count_ = 0;
    const Graph::Edge* best = nullptr;
    u64 best_score = ~u64{0};
    for (u32 i = 0; i < choice.count; ++i) {
      const auto* edge = choice.edges[i];
      const u64 score = u64{uses(edge)} << 32 | load_[static_cast<std::size_t>(edge - graph_.edges.data())];
      if (score >= best_score) continue;
      best_score = score;
      best = edge;
    }
    if (used_count_ < 128) used_[used_count_++] = best->port;
    if (to.counts) ++load_[static_cast<std::size_t>(best - graph_.edges.data())];
    return best->port;
  }

 private:
  [[nodiscard]] u32 uses(const Graph::Edge* edge) const {
    u32 times = 0;
    for (u32 i = 0; i < used_count_; ++i) times += used_[i] == edge->port;
    return times;
  }

  std::vector<u32> load_;
  const Graph& graph_;
  u8 used_[128];  // by earlier LIDs of the same port
  u32 used_count_ = 0;
};

// In a fat tree the n-th host of each leaf goes up by the n-th cable, at the next level by what is left of n: all
// traffic to one host comes down by one way, and shifted patterns don't collide.
class ByPlace {
 public:
  explicit ByPlace(const Ranks& ranks) : ranks_(ranks) {
    for (const u8 rank : ranks.rank) lowest_ = std::max(lowest_, rank == unreachable ? u8{0} : rank);
  }

  u8 choose(u32 from, u32 leaf_index, const Choice& choice, const Graph::Destination& to) const {
    u32 place = to.in_leaf + to.sub;
    const u32 level = lowest_ - ranks_.rank[from];
    for (u32 i = 0; i < level; ++i) place = place / std::max<u32>(1, choice.count) + leaf_index;
    return choice.edges[place % choice.count]->port;
  }

 private:
  const Ranks& ranks_;
  u8 lowest_ = 0;
};

// The ways from every switch to one, shortest or up-then-down.
class Ways {
 public:
  Ways(const Graph& graph, const Ranks* ranks) : graph_(graph), ranks_(ranks) {
    if (!ranks) return;
    order_.resize(graph.switches);
    for (u32 sw = 0; sw < graph.switches; ++sw) order_[sw] = sw;
    std::sort(order_.begin(), order_.end(), [&](u32 a, u32 b) { return ranks->key[a] < ranks->key[b]; });
  }

  void towards(u32 sw) {
    if (!ranks_) {
      hops_ = hops_from(graph_, {sw});
      return;
    }
    find_down(sw);
    find_up();
  }

  // Candidates for the next hop at `from`.
  void choices(u32 from, Choice& choice) const {
    choice.count = 0;
    if (hops_[from] == unreachable) return;
    const bool down_only = ranks_ && down_[from] != unreachable;
    for (const auto* edge = graph_.begin(from); edge != graph_.end(from); ++edge) {
      const u32 to = edge->to;
      if (ranks_ && down_only != is_up(to, from)) continue;
      const u8 left = down_only ? down_[to] : hops_[to];
      if (left != unreachable && left + 1 == hops_[from]) choice.add(edge);
    }
  }

 private:
  // Whether `a` lies in the up direction of `b`... seen from a.
  [[nodiscard]] bool is_up(u32 below, u32 above) const { return ranks_->key[above] < ranks_->key[below]; }

  // Switches above the target reach it by going down only.
  void find_down(u32 target) {
    down_.assign(graph_.switches, unreachable);
    queue_.assign(1, target);
    down_[target] = 0;
    for (std::size_t at = 0; at < queue_.size(); ++at) {
      const u32 sw = queue_[at];
      for (const auto* edge = graph_.begin(sw); edge != graph_.end(sw); ++edge) {
        if (!is_up(sw, edge->to) || down_[edge->to] != unreachable || down_[sw] >= unreachable - 1) continue;
        down_[edge->to] = static_cast<u8>(down_[sw] + 1);
        queue_.push_back(edge->to);
      }
    }
  }

  // The others go up first. Who can go down must: a packet may have come from above, and never turns up again.
  void find_up() {
    hops_ = down_;
    for (const u32 sw : order_) {
      if (down_[sw] != unreachable) continue;
      u32 best = unreachable;
      for (const auto* edge = graph_.begin(sw); edge != graph_.end(sw); ++edge)
        if (is_up(sw, edge->to) && hops_[edge->to] != unreachable) best = std::min<u32>(best, hops_[edge->to] + 1U);
      hops_[sw] = static_cast<u8>(std::min<u32>(best, unreachable));
    }
  }

  const Graph& graph_;
  const Ranks* ranks_;
  std::vector<u32> order_;
  std::vector<u8> hops_;
  std::vector<u8> down_;
  std::vector<u32> queue_;
};

Tables empty_tables(const Graph& graph) {
  u32 top = 0;
  for (const auto& to : graph.destinations) top = std::max<u32>(top, to.lid);
  Tables tables;
  tables.width = (top / lft_block + 1) * lft_block;
  tables.ports.assign(std::size_t{tables.width} * graph.switches, no_port);
  return tables;
}

// Calls pick(from, choice, destination) for each switch and each LID behind another.
template <typename Pick>
Tables fill(const Graph& graph, const Ranks* ranks, Pick pick) {
  Tables tables = empty_tables(graph);
  Ways ways(graph, ranks);
  Choice choice;
  for (u32 target = 0; target < graph.switches; ++target) {
    const auto* first = graph.destinations.data() + graph.first_destination[target];
    const auto* last = graph.destinations.data() + graph.first_destination[target + 1];
    if (first == last) continue;
    for (const auto* to = first; to != last; ++to) tables.of(target)[to->lid] = to->port;
    ways.towards(target);
    for (u32 from = 0; from < graph.switches; ++from) {
      if (from == target) continue;
      ways.choices(from, choice);
      if (choice.count == 0) continue;
      for (const auto* to = first; to != last; ++to) tables.of(from)[to->lid] = pick(from, choice, *to);
    }
  }
  return tables;
}

Tables balanced(const Graph& graph, const Ranks* ranks) {
  LeastLoaded chooser(graph);
  return fill(graph, ranks,
              [&](u32, const Choice& choice, const Graph::Destination& to) { return chooser.choose(choice, to); });
}

Tables fat_tree(const Graph& graph, const Ranks& ranks) {
  std::vector<u32> leaf_index(graph.switches, 0);
  u32 leaves = 0;
  for (u32 sw = 0; sw < graph.switches; ++sw)
    if (graph.hosts[sw] != 0) leaf_index[sw] = leaves++;
  const ByPlace chooser(ranks);
  return fill(graph, &ranks, [&](u32 from, const Choice& choice, const Graph::Destination& to) {
    return chooser.choose(from, leaf_index[to.sw], choice, to);
  });
}

}  // namespace

Routed route(const Subnet& subnet, Routing routing) {
  const Graph graph(subnet);
  if (routing == Routing::minhop) return {balanced(graph, nullptr), {}};
  const Ranks ranks = rank_switches(graph);
  if (routing == Routing::updn) return {balanced(graph, &ranks), {}};
  const std::string why = why_no_fat_tree(graph, ranks);
  if (why.empty()) return {fat_tree(graph, ranks), {}};
  return {balanced(graph, &ranks), fmt::format("no fat tree ({}); up/down routing instead", why)};
}

}  // namespace softib::sm
