#include <algorithm>

#include "sm/routing.h"

namespace softib::sm {

namespace {

// All LIDs of one end port as destinations behind `port` of a switch.
void add_lids(std::vector<Graph::Destination>& list, const Port& end, u16 sw, u8 port, u16 in_leaf, bool counts) {
  if (end.lid == 0) return;
  for (u32 sub = 0; sub < 1U << end.lmc; ++sub)
    list.push_back({static_cast<u16>(end.lid + sub), sw, port, static_cast<u8>(sub), in_leaf, counts});
}

}  // namespace

Graph::Graph(const Subnet& subnet) : switches(static_cast<u32>(subnet.switches.size())) {
  hosts.assign(switches, 0);
  for (u32 sw = 0; sw < switches; ++sw) {
    first.push_back(static_cast<u32>(edges.size()));
    first_destination.push_back(static_cast<u32>(destinations.size()));
    const Node& node = subnet.nodes[subnet.switches[sw]];
    add_lids(destinations, node.ports[0], static_cast<u16>(sw), 0, 0, false);
    for (u32 port = 1; port < node.ports.size(); ++port) {
      const Port& from = node.ports[port];
      if (!from.linked()) continue;
      const Node& peer = subnet.node(from.peer);
      if (!peer.is_switch()) {
        const bool is_host = !peer.is_aggregation_node();
        add_lids(destinations, subnet.port(from.peer), static_cast<u16>(sw), static_cast<u8>(port),
                 is_host ? hosts[sw]++ : u16{0}, is_host);
      } else if (peer.sw != sw) {
        edges.push_back({static_cast<u16>(peer.sw), static_cast<u8>(port), from.peer.port});
      }
    }
  }
  first.push_back(static_cast<u32>(edges.size()));
  first_destination.push_back(static_cast<u32>(destinations.size()));
}

std::vector<u8> hops_from(const Graph& graph, const std::vector<u32>& sources) {
  std::vector<u8> hops(graph.switches, unreachable);
  std::vector<u32> queue = sources;
  queue.reserve(graph.switches);
  for (const u32 source : sources) hops[source] = 0;
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const u32 sw = queue[at];
    for (const auto* edge = graph.begin(sw); edge != graph.end(sw); ++edge) {
      if (hops[edge->to] != unreachable || hops[sw] + 1 >= unreachable) continue;
      hops[edge->to] = static_cast<u8>(hops[sw] + 1);
      queue.push_back(edge->to);
    }
  }
  return hops;
}

}  // namespace softib::sm
