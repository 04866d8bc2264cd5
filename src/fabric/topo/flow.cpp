#include "fabric/topo/flow.h"

#include <algorithm>

namespace softib::fabric::topo {

void FlowNetwork::add_link(u32 a, u32 b, u64 capacity) {
  edges_[a].push_back({b, static_cast<u32>(edges_[b].size()), capacity});
  edges_[b].push_back({a, static_cast<u32>(edges_[a].size()) - 1, capacity});
}

// Breadth first, by edges that have room left; whether `to` can be reached.
bool FlowNetwork::level_nodes(u32 from, u32 to) {
  levels_.assign(edges_.size(), 0);
  std::vector<u32> queue{from};
  levels_[from] = 1;
  for (size_t i = 0; i < queue.size(); ++i)
    for (const Edge& edge : edges_[queue[i]])
      if (edge.room > 0 && levels_[edge.to] == 0) {
        levels_[edge.to] = levels_[queue[i]] + 1;
        queue.push_back(edge.to);
      }
  return levels_[to] != 0;
}

// One path of rising levels; what it carried, 0 when there is none left. Not recursive: networks may be deep.
u64 FlowNetwork::push(u32 from, u32 to) {
  std::vector<std::pair<u32, u32>> path;  // node, edge
  u32 at = from;
  while (at != to) {
    u32& edge = next_[at];
    while (edge < edges_[at].size() && (edges_[at][edge].room == 0 || levels_[edges_[at][edge].to] != levels_[at] + 1))
      ++edge;
    if (edge < edges_[at].size()) {
      path.emplace_back(at, edge);
      at = edges_[at][edge].to;
    } else {
      if (path.empty()) return 0;
      at = path.back().first;
      path.pop_back();
      ++next_[at];
    }
  }
  u64 amount = ~0ULL;
  for (auto [node, edge] : path) amount = std::min(amount, edges_[node][edge].room);
  for (auto [node, edge] : path) {
    Edge& forward = edges_[node][edge];
    forward.room -= amount;
    edges_[forward.to][forward.back].room += amount;
  }
  return amount;
}

u64 FlowNetwork::most_flow(u32 from, u32 to) {
  u64 total = 0;
  while (level_nodes(from, to)) {
    next_.assign(edges_.size(), 0);
    while (u64 amount = push(from, to)) total += amount;
  }
  return total;
}

}  // namespace softib::fabric::topo
