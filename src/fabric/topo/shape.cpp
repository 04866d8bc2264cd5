#include "fabric/topo/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "fabric/partitions.h"
#include "fabric/topo/flow.h"

namespace softib::fabric::topo {

namespace {

bool is_server(const Fabric& fabric, const CableEnd& end) {
  return end.kind == EndKind::hca && fabric.hosts[end.node].kind == HostKind::server;
}

u64 mbps_of(const Fabric& fabric, const Cable& cable) {
  LinkRate rate = link_rate(fabric, cable);
  return data_mbps(rate.speed, rate.width);
}

// Neighbours among switches.
std::vector<std::vector<u32>> neighbours_of(const Fabric& fabric) {
  std::vector<std::vector<u32>> result(fabric.switches.size());
  for (const Cable& cable : fabric.cables)
    if (cable.a.kind == EndKind::sw && cable.b.kind == EndKind::sw) {
      result[cable.a.node].push_back(cable.b.node);
      result[cable.b.node].push_back(cable.a.node);
    }
  return result;
}

void count_hosts(const Fabric& fabric, Shape& shape) {
  std::set<u32> subnets;
  for (const Host& host : fabric.hosts) {
    if (host.kind == HostKind::aggregation) shape.aggregation_nodes += static_cast<u32>(host.hcas.size());
    if (host.kind != HostKind::server) continue;
    ++shape.servers;
    shape.hcas += static_cast<u32>(host.hcas.size());
    for (const Hca& hca : host.hcas)
      for (const Port& port : hca.ports) {
        ++shape.ports;
        if (!port.cabled) continue;
        ++shape.cabled_ports;
        subnets.insert(port.subnet);
      }
  }
  shape.subnets = static_cast<u32>(subnets.size());
}

// One end of a cable at a switch, into the sums of the switch's tier.
void count_end(const Fabric& fabric, const Cable& cable, bool at_a, const std::vector<u32>& tiers, Shape& shape) {
  const CableEnd& here = at_a ? cable.a : cable.b;
  const CableEnd& there = at_a ? cable.b : cable.a;
  if (here.kind != EndKind::sw || tiers[here.node] == 0) return;
  TierSummary& tier = shape.tiers[tiers[here.node] - 1];
  ++tier.used_ports;
  if (there.kind == EndKind::hca && !is_server(fabric, there)) return;
  u32 other = there.kind == EndKind::sw ? tiers[there.node] : 0;
  if (other < tier.tier) {
    ++tier.cables_down;
    tier.mbps_down += mbps_of(fabric, cable);
  } else if (other > tier.tier) {
    ++tier.cables_up;
    tier.mbps_up += mbps_of(fabric, cable);
  } else if (at_a) {
    ++tier.cables_across;
  }
}

void count_tiers(const Fabric& fabric, Shape& shape) {
  std::vector<u32> tiers = tiers_of(fabric);
  u32 count = tiers.empty() ? 0 : *std::max_element(tiers.begin(), tiers.end());
  for (u32 t = 1; t <= count; ++t) shape.tiers.push_back({.tier = t});
  for (u32 s = 0; s < tiers.size(); ++s) {
    if (tiers[s] == 0) continue;
    ++shape.tiers[tiers[s] - 1].switches;
    shape.tiers[tiers[s] - 1].ports += fabric.switches[s].ports;
  }
  for (const Cable& cable : fabric.cables) {
    count_end(fabric, cable, true, tiers, shape);
    count_end(fabric, cable, false, tiers, shape);
  }
}

// The flow from the first half of the servers to the second. An HCA does not forward, so only switches are nodes.
void measure_halves(const Fabric& fabric, Shape& shape) {
  auto source = static_cast<u32>(fabric.switches.size());
  u32 sink = source + 1;
  std::vector<u32> half(fabric.hosts.size());
  u32 seen = 0;
  for (u32 h = 0; h < fabric.hosts.size(); ++h)
    if (fabric.hosts[h].kind == HostKind::server) half[h] = seen++ < (shape.servers + 1) / 2 ? source : sink;
  std::map<std::pair<u32, u32>, u64> links;
  u64 sum[2] = {0, 0};
  for (const Cable& cable : fabric.cables) {
    auto node = [&](const CableEnd& end) { return end.kind == EndKind::sw ? end.node : half[end.node]; };
    bool used = true;
    for (const CableEnd& end : {cable.a, cable.b})
      if (end.kind == EndKind::hca) {
        used = used && is_server(fabric, end);
        if (is_server(fabric, end)) sum[half[end.node] == sink] += mbps_of(fabric, cable);
      }
    auto [a, b] = std::minmax({node(cable.a), node(cable.b)});
    if (used && a != b) links[{a, b}] += mbps_of(fabric, cable);
  }
  FlowNetwork network(sink + 1);
  for (const auto& [ends, capacity] : links) network.add_link(ends.first, ends.second, capacity);
  shape.halves_mbps = network.most_flow(source, sink);
  shape.halves_most_mbps = std::min(sum[0], sum[1]);
}

// -- oddities

// "a, b, c and 4 more"
std::string few(const std::vector<std::string>& names) {
  constexpr size_t most = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

void note(std::vector<std::string>& notes, std::string_view what, const std::vector<std::string>& names) {
  if (!names.empty()) notes.push_back(fmt::format("{}: {}", what, few(names)));
}

void note_uncabled(const Fabric& fabric, std::vector<std::string>& notes) {
  std::vector<std::string> ports;
  for (u32 h = 0; h < fabric.hosts.size(); ++h)
    for (u32 d = 0; d < fabric.hosts[h].hcas.size(); ++d)
      for (const Port& port : fabric.hosts[h].hcas[d].ports)
        if (!port.cabled) ports.push_back(to_string(fabric, {EndKind::hca, h, d, port.number}));
  note(notes, "HCA ports without a cable", ports);
  std::vector<std::string> switches;
  std::vector<u32> tiers = tiers_of(fabric);
  for (u32 s = 0; s < fabric.switches.size(); ++s)
    if (tiers[s] == 0) switches.push_back(fabric.switches[s].name);
  note(notes, "switches that reach no host", switches);
}

void note_slow_links(const Fabric& fabric, std::vector<std::string>& notes) {
  std::vector<std::string> links;
  for (const Cable& cable : fabric.cables) {
    LinkRate rate = link_rate(fabric, cable);
    LinkRate best = link_rate(fabric, {cable.a, cable.b, {}, {}});
    if (rate != best)
      links.push_back(fmt::format("{} - {} ({}{})", to_string(fabric, cable.a), to_string(fabric, cable.b),
                                  name_of(rate.width), name_of(rate.speed)));
  }
  note(notes, "links below what both ends can do", links);
}

// Switches whose cables to the tier above are fewer than most others of their tier have.
void note_uplinks(const Fabric& fabric, std::vector<std::string>& notes) {
  std::vector<u32> tiers = tiers_of(fabric);
  std::vector<u32> uplinks(tiers.size());
  for (const Cable& cable : fabric.cables)
    if (cable.a.kind == EndKind::sw && cable.b.kind == EndKind::sw && tiers[cable.a.node] != tiers[cable.b.node])
      ++uplinks[tiers[cable.a.node] < tiers[cable.b.node] ? cable.a.node : cable.b.node];
  std::map<u32, std::map<u32, u32>> counts;  // tier -> uplinks -> switches
  for (u32 s = 0; s < tiers.size(); ++s)
    if (tiers[s]) ++counts[tiers[s]][uplinks[s]];
  std::vector<std::string> few_uplinks;
  for (u32 s = 0; s < tiers.size(); ++s) {
    if (tiers[s] == 0) continue;
    const auto& tier = counts[tiers[s]];
    auto usual = std::max_element(tier.begin(), tier.end(), [](auto& x, auto& y) { return x.second < y.second; });
    if (uplinks[s] < usual->first)
      few_uplinks.push_back(fmt::format("{} ({}, not {})", fabric.switches[s].name, uplinks[s], usual->first));
  }
  note(notes, "switches with fewer uplinks than the others of their tier", few_uplinks);
}

}  // namespace

std::vector<u32> tiers_of(const Fabric& fabric) {
  std::vector<u32> tiers(fabric.switches.size());
  std::vector<u32> queue;
  auto reach = [&](u32 sw, u32 tier) {
    if (tiers[sw] != 0) return;
    tiers[sw] = tier;
    queue.push_back(sw);
  };
  for (const Cable& cable : fabric.cables)
    for (auto [sw, other] : {std::pair(&cable.a, &cable.b), {&cable.b, &cable.a}})
      if (sw->kind == EndKind::sw && is_server(fabric, *other)) reach(sw->node, 1);
  std::vector<std::vector<u32>> neighbours = neighbours_of(fabric);
  for (size_t i = 0; i < queue.size(); ++i) {
    u32 sw = queue[i];
    for (u32 next : neighbours[sw]) reach(next, tiers[sw] + 1);
  }
  return tiers;
}

Shape shape_of(const Fabric& fabric) {
  Shape shape;
  shape.cables = static_cast<u32>(fabric.cables.size());
  count_hosts(fabric, shape);
  count_tiers(fabric, shape);
  measure_halves(fabric, shape);
  return shape;
}

// Who is named in the partitions and not there.
void note_unknown_members(const Fabric& fabric, std::vector<std::string>& notes) {
  std::set<u64> known;
  for (const Switch& sw : fabric.switches) known.insert(sw.port_guid ? sw.port_guid : sw.node_guid);
  for (const Host& host : fabric.hosts)
    for (const Hca& hca : host.hcas)
      for (const Port& port : hca.ports) known.insert(port.guid);
  std::vector<std::string> unknown;
  for (const Partition& partition : parse_partitions(fabric.partitions).list)
    for (const Partition::Rule& rule : partition.rules)
      if (rule.who == Partition::Who::one && !known.contains(rule.guid))
        unknown.push_back(fmt::format("{:#018x} in {}", rule.guid, partition.name));
  note(notes, "port GUIDs in partitions that no port has", unknown);
}

std::vector<std::string> oddities(const Fabric& fabric) {
  std::vector<std::string> notes;
  if (u32 subnets = shape_of(fabric).subnets; subnets > 1)
    notes.push_back(fmt::format("{} subnets that no cable joins", subnets));
  note_uncabled(fabric, notes);
  note_slow_links(fabric, notes);
  note_uplinks(fabric, notes);
  note_unknown_members(fabric, notes);
  return notes;
}

}  // namespace softib::fabric::topo
