#include "sm/multicast_tables.h"

#include <algorithm>

#include "wire/mad.h"

namespace softib::sm {

namespace {

// The switch from which the members' switches are nearest in sum; looks at no more than some of them.
u32 best_root(const Graph& graph, const std::vector<u32>& member_switches) {
  constexpr std::size_t most = 32;
  const std::size_t step = (member_switches.size() + most - 1) / most;
  std::vector<u32> sum(graph.switches, 0);
  for (std::size_t i = 0; i < member_switches.size(); i += step) {
    const std::vector<u8> hops = hops_from(graph, {member_switches[i]});
    for (u32 sw = 0; sw < graph.switches; ++sw) sum[sw] += hops[sw];
  }
  return static_cast<u32>(std::min_element(sum.begin(), sum.end()) - sum.begin());
}

// For each switch the edge by which it was reached from the root.
std::vector<const Graph::Edge*> span_tree(const Graph& graph, u32 root, std::vector<u32>& order) {
  std::vector<const Graph::Edge*> reached(graph.switches, nullptr);
  std::vector<bool> seen(graph.switches, false);
  order.assign(1, root);
  seen[root] = true;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const u32 sw = order[at];
    for (const auto* edge = graph.begin(sw); edge != graph.end(sw); ++edge) {
      if (seen[edge->to]) continue;
      seen[edge->to] = true;
      reached[edge->to] = edge;
      order.push_back(edge->to);
    }
  }
  return reached;
}

u32 owner(const Graph& graph, const Graph::Edge* edge) {
  const auto place = static_cast<u32>(edge - graph.edges.data());
  return static_cast<u32>(std::upper_bound(graph.first.begin(), graph.first.end(), place) - graph.first.begin()) - 1;
}

}  // namespace

MulticastTables::MulticastTables(const Subnet& subnet, u32 mlids)
    : blocks_((mlids + mlids_in_block - 1) / mlids_in_block) {
  for (const u32 number : subnet.switches) {
    const auto ports = static_cast<u32>(subnet.nodes[number].ports.size());
    positions_.push_back(static_cast<u8>((ports + ports_in_mask - 1) / ports_in_mask));
    masks_.emplace_back(std::size_t{blocks_} * positions_.back() * mlids_in_block, u16{0});
  }
}

std::span<const u16> MulticastTables::block(u32 sw, u32 block, u32 position) const {
  return std::span(masks_[sw])
      .subspan((std::size_t{block} * positions_[sw] + position) * mlids_in_block, mlids_in_block);
}

void MulticastTables::clear(u32 index) {
  for (u32 sw = 0; sw < masks_.size(); ++sw)
    for (u32 position = 0; position < positions_[sw]; ++position)
      masks_[sw][(index / mlids_in_block * positions_[sw] + position) * mlids_in_block + index % mlids_in_block] = 0;
}

void MulticastTables::add(u32 sw, u32 index, u8 port) {
  u16& mask = masks_[sw][(index / mlids_in_block * positions_[sw] + port / ports_in_mask) * mlids_in_block +
                         index % mlids_in_block];
  mask = static_cast<u16>(mask | 1U << port % ports_in_mask);
}

void MulticastTables::plant(const Subnet& subnet, const Graph& graph, u16 mlid, const std::vector<End>& members,
                            const std::vector<End>& senders) {
  const u32 index = mlid - wire::first_multicast_lid;
  if (index >= blocks_ * mlids_in_block) return;
  clear(index);
  std::vector<bool> needed(graph.switches, false);
  std::vector<u32> member_switches;
  const auto include = [&](End member, bool receives) {
    const bool sw = subnet.node(member).is_switch();
    const End at = sw ? member : subnet.port(member).peer;
    if (at.node == nowhere || !subnet.node(at).is_switch()) return;
    const u32 number = subnet.node(at).sw;
    if (receives) add(number, index, sw ? u8{0} : at.port);
    if (!needed[number]) member_switches.push_back(number);
    needed[number] = true;
  };
  for (const End member : members) include(member, true);
  for (const End sender : senders) include(sender, false);
  if (member_switches.size() < 2) return;
  std::vector<u32> order;
  const auto reached = span_tree(graph, best_root(graph, member_switches), order);
  // From the farthest inwards: a switch that is needed needs the one before it. The root is kept even where it has a
  // single branch.
  for (auto sw = order.rbegin(); sw != order.rend(); ++sw) {
    if (!needed[*sw] || !reached[*sw]) continue;
    const u32 before = owner(graph, reached[*sw]);
    add(*sw, index, reached[*sw]->peer);
    add(before, index, reached[*sw]->port);
    needed[before] = true;
  }
}

}  // namespace softib::sm
