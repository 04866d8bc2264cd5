// The most that can flow through a network of undirected links with capacities (Dinic's algorithm).
#pragma once

#include <vector>

#include "base/types.h"

namespace softib::fabric::topo {

class FlowNetwork {
 public:
  explicit FlowNetwork(size_t nodes) : edges_(nodes) {}

  void add_link(u32 a, u32 b, u64 capacity);
  [[nodiscard]] u64 most_flow(u32 from, u32 to);

 private:
  struct Edge {
    u32 to = 0;
    u32 back = 0;  // index of the opposite edge at `to`
    u64 room = 0;
  };

  bool level_nodes(u32 from, u32 to);
  u64 push(u32 from, u32 to);

  std::vector<std::vector<Edge>> edges_;
  std::vector<u32> levels_;
  std::vector<u32> next_;  // edge to try next, by node
};

}  // namespace softib::fabric::topo
