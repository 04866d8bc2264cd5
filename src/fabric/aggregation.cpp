#include "fabric/aggregation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace softib::fabric {

namespace {

// As Mellanox' switches show theirs.
constexpr u32 node_maker = 0x2c9, node_device = 0xcf09;

bool is_at_node(const Fabric& fabric, const CableEnd& end) {
  return end.kind == EndKind::hca && end.node < fabric.hosts.size() &&
         fabric.hosts[end.node].kind == HostKind::aggregation;
}

// Calls with the switch and the end of the aggregation node's.
template <typename Call>
void for_each_node(const Fabric& fabric, Call call) {
  for (const Cable& cable : fabric.cables)
    for (const auto& [here, there] : {std::pair(cable.a, cable.b), std::pair(cable.b, cable.a)})
      if (here.kind == EndKind::sw && here.node < fabric.switches.size() && is_at_node(fabric, there))
        call(here.node, there);
}

// One beyond those that the switch is said to have, as hardware has it; 0: neither that nor a free one.
u32 port_for_node(Fabric& fabric, u32 number) {
  Switch& sw = fabric.switches[number];
  if (sw.ports < max_switch_ports) return ++sw.ports;
  std::set<u32> used;
  for (const Cable& cable : fabric.cables)
    for (const CableEnd& end : {cable.a, cable.b})
      if (end.kind == EndKind::sw && end.node == number) used.insert(end.port);
  for (u32 port = sw.ports; port > 0; --port)
    if (!used.contains(port)) return port;
  return 0;
}

std::string free_host_name(const Fabric& fabric) {
  const auto is_taken = [&](const std::string& name) {
    return find_host(fabric, name) || std::any_of(fabric.switches.begin(), fabric.switches.end(),
                                                  [&](const Switch& sw) { return sw.name == name; });
  };
  std::string name = "aggregation";
  for (u32 number = 2; is_taken(name); ++number) name = fmt::format("aggregation{}", number);
  return name;
}

// Names of devices are shorter than those of switches may be, and have no dots.
std::string name_of_node(const Host& host, const Switch& sw) {
  constexpr size_t longest = 63;
  std::string name = sw.name + "-an";
  std::replace(name.begin(), name.end(), '.', '-');
  const bool is_taken =
      std::any_of(host.hcas.begin(), host.hcas.end(), [&](const Hca& other) { return other.name == name; });
  return is_taken || name.size() > longest ? fmt::format("an{}", host.hcas.size()) : name;
}

Hca new_node(const Host& host, const Switch& sw) {
  Hca hca;
  hca.name = name_of_node(host, sw);
  hca.vendor_id = node_maker;
  hca.device_id = node_device;
  hca.ports = {Port{.speed = sw.speed, .width = sw.width, .mtu = sw.mtu}};
  return hca;
}

}  // namespace

Check add_aggregation_nodes(Fabric& fabric) {
  std::set<u32> have;
  for_each_node(fabric, [&](u32 sw, const CableEnd&) { have.insert(sw); });
  std::optional<u32> host;
  for (u32 sw = 0; sw < fabric.switches.size(); ++sw) {
    if (!fabric.switches[sw].aggregation || have.contains(sw)) continue;
    const u32 port = port_for_node(fabric, sw);
    if (port == 0)
      return tl::unexpected<Fault>(
          Fault{{Part::sw, sw, 0, 0},
                fmt::format("switch '{}' has no port left for its aggregation node", fabric.switches[sw].name)});
    if (!host || fabric.hosts[*host].hcas.size() == max_hcas_per_host) {
      host = static_cast<u32>(fabric.hosts.size());
      fabric.hosts.push_back({free_host_name(fabric), {}, HostKind::aggregation});
    }
    auto& hcas = fabric.hosts[*host].hcas;
    hcas.push_back(new_node(fabric.hosts[*host], fabric.switches[sw]));
    const CableEnd end{EndKind::hca, *host, static_cast<u32>(hcas.size() - 1), 1};
    fabric.cables.push_back({end, {EndKind::sw, sw, 0, port}, {}, {}});
  }
  return {};
}

std::vector<u32> aggregation_hosts(const Fabric& fabric) {
  std::set<u32> hosts;
  for_each_node(fabric, [&](u32 sw, const CableEnd& end) {
    if (fabric.switches[sw].aggregation) hosts.insert(end.node);
  });
  return {hosts.begin(), hosts.end()};
}

}  // namespace softib::fabric
