#include "fabric/complete.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "fabric/addresses.h"
#include "fabric/aggregation.h"

namespace softib::fabric {

namespace {

tl::unexpected<Fault> fault(Where where, std::string text) {
  return tl::unexpected<Fault>(Fault{where, std::move(text)});
}

Where at_host(u32 host) { return {Part::host, host, 0, 0}; }
Where at_hca(u32 host, u32 hca) { return {Part::hca, host, hca, 0}; }
Where at_port(u32 host, u32 hca, u32 port) { return {Part::port, host, hca, port}; }
Where at_switch(u32 index) { return {Part::sw, index, 0, 0}; }
Where at_cable(u32 index) { return {Part::cable, index, 0, 0}; }

// Calls `visit(where, host index, hca, port)` for every HCA port, in order, up to the first fault.
template <typename Visit>
Check each_port(Fabric& fabric, Visit visit) {
  for (u32 h = 0; h < fabric.hosts.size(); ++h)
    for (u32 d = 0; d < fabric.hosts[h].hcas.size(); ++d) {
      Hca& hca = fabric.hosts[h].hcas[d];
      for (u32 p = 0; p < hca.ports.size(); ++p)
        if (Check check = visit(at_port(h, d, p), hca, hca.ports[p]); !check) return check;
    }
  return {};
}

// -- names and limits

Check check_description(const std::string& text, Where where) {
  if (text.empty() || valid_description(text)) return {};
  return fault(where, "a description is printable ASCII, at most 64 characters, with no blank at either end");
}

bool valid_device_name(std::string_view name) { return valid_fabric_name(name) && name.find('.') == name.npos; }

Check check_ports(const Hca& hca, u32 host, u32 index) {
  if (hca.ports.empty() || hca.ports.size() > max_ports_per_hca)
    return fault(at_hca(host, index),
                 fmt::format("an HCA has 1 to {} ports, not {}", max_ports_per_hca, hca.ports.size()));
  for (u32 p = 0; p < hca.ports.size(); ++p) {
    const Port& port = hca.ports[p];
    if (port.number != p + 1)
      return fault(at_port(host, index, p),
                   fmt::format("ports are numbered 1, 2, ... in order; this one says {}", port.number));
    if (port.pkeys.size() > ipc::max_pkeys_per_port)
      return fault(at_port(host, index, p), fmt::format("a port has at most {} P_Keys", ipc::max_pkeys_per_port));
  }
  return {};
}

Check check_hcas(const Host& host, u32 index) {
  if (host.hcas.size() > max_hcas_per_host)
    return fault(at_host(index),
                 fmt::format("host '{}' has {} HCAs; {} is the limit", host.name, host.hcas.size(), max_hcas_per_host));
  std::unordered_map<std::string_view, u32> seen;
  for (u32 d = 0; d < host.hcas.size(); ++d) {
    const Hca& hca = host.hcas[d];
    if (!valid_device_name(hca.name))
      return fault(at_hca(index, d),
                   fmt::format("'{}' is no device name: letters, digits, '_' and '-', at most 63", hca.name));
    if (!seen.emplace(hca.name, d).second)
      return fault(at_hca(index, d), fmt::format("host '{}' has two HCAs named '{}'", host.name, hca.name));
    if (!find_model(hca.model)) return fault(at_hca(index, d), fmt::format("no such model: '{}'", hca.model));
    if (Check check = check_description(hca.description, at_hca(index, d)); !check) return check;
    if (Check check = check_ports(hca, index, d); !check) return check;
  }
  return {};
}

// Hosts and switches share one name space, because a cable end starts with either.
Check check_node_names(const Fabric& fabric) {
  std::unordered_map<std::string_view, std::string_view> seen;
  for (u32 h = 0; h < fabric.hosts.size(); ++h) {
    const std::string& name = fabric.hosts[h].name;
    if (!valid_host_name(name))
      return fault(
          at_host(h),
          fmt::format("'{}' is no host name: letters, digits and '-', parts separated by dots, at most 63", name));
    if (!seen.emplace(name, "host").second)
      return fault(at_host(h), fmt::format("there are two hosts named '{}'", name));
  }
  for (u32 s = 0; s < fabric.switches.size(); ++s) {
    const std::string& name = fabric.switches[s].name;
    if (!valid_fabric_name(name))
      return fault(at_switch(s),
                   fmt::format("'{}' is no switch name: letters, digits, '.', '_' and '-', at most 63", name));
    auto [other, fresh] = seen.emplace(name, "switch");
    if (!fresh) return fault(at_switch(s), fmt::format("there is a {} named '{}' already", other->second, name));
    if (Check check = check_description(fabric.switches[s].description, at_switch(s)); !check) return check;
  }
  return {};
}

Check check_sizes(const Fabric& fabric) {
  if (!valid_fabric_name(fabric.name))
    return fault({}, fmt::format("'{}' is no fabric name: letters, digits, '.', '_' and '-', at most 63", fabric.name));
  if (fabric.hosts.empty()) return fault({}, "a fabric needs at least one host");
  size_t devices = 0;
  size_t ports = 0;
  for (u32 h = 0; h < fabric.hosts.size(); ++h) {
    devices += fabric.hosts[h].hcas.size();
    for (const Hca& hca : fabric.hosts[h].hcas) ports += hca.ports.size();
    if (fabric.hosts.size() > max_hosts || devices >= ipc::max_devices || ports >= ipc::max_ports)
      return fault(at_host(h), fmt::format("too large: at most {} hosts, {} HCAs and {} ports", max_hosts,
                                           ipc::max_devices - 1, ipc::max_ports - 1));
  }
  if (fabric.switches.size() > max_switches) return fault({}, fmt::format("at most {} switches", max_switches));
  for (u32 s = 0; s < fabric.switches.size(); ++s)
    if (fabric.switches[s].ports == 0 || fabric.switches[s].ports > max_switch_ports)
      return fault(at_switch(s),
                   fmt::format("a switch has 1 to {} ports, not {}", max_switch_ports, fabric.switches[s].ports));
  return {};
}

Check check_names(const Fabric& fabric) {
  if (Check check = check_sizes(fabric); !check) return check;
  if (Check check = check_node_names(fabric); !check) return check;
  for (u32 h = 0; h < fabric.hosts.size(); ++h)
    if (Check check = check_hcas(fabric.hosts[h], h); !check) return check;
  return {};
}

// -- GUIDs

class GuidTable {
 public:
  // One owner may use a GUID more than once: an HCA's node GUID is often that of its first port.
  Check add(u64 guid, Where where, const std::string& owner) {
    auto [entry, fresh] = owners_.emplace(guid, owner);
    if (fresh || entry->second == owner) return {};
    return fault(where, fmt::format("GUID 0x{:016x} of {} is that of {} too", guid, owner, entry->second));
  }

 private:
  std::unordered_map<u64, std::string> owners_;
};

Check assign_hca_guids(Hca& hca, const std::string& fabric, const std::string& label, Where where, u32 number,
                       GuidTable& table) {
  std::map<u64, u32> ports;
  for (u32 p = 0; p < hca.ports.size(); ++p) {
    Port& port = hca.ports[p];
    if (!port.guid) port.guid = hca_guid(fabric, number, p + 1);
    if (!ports.emplace(port.guid, p).second)
      return fault({Part::port, where.a, where.b, p},
                   fmt::format("two ports of {} have GUID 0x{:016x}", label, port.guid));
    if (Check check = table.add(port.guid, {Part::port, where.a, where.b, p}, label); !check) return check;
  }
  if (!hca.node_guid) hca.node_guid = hca.ports[0].guid;
  if (!hca.system_guid) hca.system_guid = hca.node_guid;
  return table.add(hca.node_guid, where, label);
}

// System GUIDs are not in the table: HCAs of one card share theirs.
Check assign_guids(Fabric& fabric) {
  GuidTable table;
  u32 number = 0;
  for (u32 h = 0; h < fabric.hosts.size(); ++h)
    for (u32 d = 0; d < fabric.hosts[h].hcas.size(); ++d) {
      Hca& hca = fabric.hosts[h].hcas[d];
      std::string label = fmt::format("{}/{}", fabric.hosts[h].name, hca.name);
      if (Check check = assign_hca_guids(hca, fabric.name, label, at_hca(h, d), number++, table); !check) return check;
    }
  for (u32 s = 0; s < fabric.switches.size(); ++s) {
    Switch& sw = fabric.switches[s];
    if (!sw.node_guid) sw.node_guid = switch_guid(fabric.name, s);
    if (!sw.port_guid) sw.port_guid = sw.node_guid;
    if (!sw.system_guid) sw.system_guid = sw.node_guid;
    for (u64 guid : {sw.node_guid, sw.port_guid})
      if (Check check = table.add(guid, at_switch(s), "switch " + sw.name); !check) return check;
  }
  return {};
}

// -- cables

Port* port_at(Fabric& fabric, const CableEnd& end) {
  return end.kind == EndKind::hca ? &fabric.hosts[end.node].hcas[end.hca].ports[end.port - 1] : nullptr;
}

LinkRate ability_of(const Fabric& fabric, const CableEnd& end) {
  if (end.kind == EndKind::sw) {
    const Switch& sw = fabric.switches[end.node];
    return {sw.speed, sw.width, sw.mtu};
  }
  const Port& port = fabric.hosts[end.node].hcas[end.hca].ports[end.port - 1];
  return {port.speed, port.width, port.mtu};
}

bool exists(const Fabric& fabric, const CableEnd& end) {
  if (end.kind == EndKind::sw)
    return end.node < fabric.switches.size() && end.port >= 1 && end.port <= fabric.switches[end.node].ports;
  return end.node < fabric.hosts.size() && end.hca < fabric.hosts[end.node].hcas.size() && end.port >= 1 &&
         end.port <= fabric.hosts[end.node].hcas[end.hca].ports.size();
}

// Ends as map keys.
//
//    63      62        40 39     32 31    0
//   +------+-------------+--------+--------+
//   | kind |     node    |  hca   |  port  |
//   +------+-------------+--------+--------+
using EndKey = u64;
EndKey key_of(const CableEnd& end) {
  static_assert(max_hosts < 1U << 23 && max_switches < 1U << 23 && max_hcas_per_host < 1U << 8);
  return static_cast<u64>(end.kind) << 63 | static_cast<u64>(end.node) << 40 | static_cast<u64>(end.hca) << 32 |
         end.port;
}

Check check_cables(const Fabric& fabric) {
  std::unordered_set<EndKey> used;
  used.reserve(2 * fabric.cables.size());
  for (u32 i = 0; i < fabric.cables.size(); ++i)
    for (const CableEnd& end : {fabric.cables[i].a, fabric.cables[i].b}) {
      if (!exists(fabric, end)) return fault(at_cable(i), "this cable's end is at a port that does not exist");
      if (!used.insert(key_of(end)).second)
        return fault(at_cable(i), fmt::format("{} has a cable already", to_string(fabric, end)));
    }
  return {};
}

Width narrower(Width a, Width b) { return lanes_of(a) < lanes_of(b) ? a : b; }

// Both ends train to the best that port, cable and other end can all do.
void train_links(Fabric& fabric) {
  (void)each_port(fabric, [](Where, Hca&, Port& port) -> Check {
    port.cabled = false;
    port.link_speed = port.speed;
    port.link_width = port.width;
    port.link_mtu = port.mtu;
    return {};
  });
  for (const Cable& cable : fabric.cables) {
    LinkRate rate = link_rate(fabric, cable);
    for (Port* port : {port_at(fabric, cable.a), port_at(fabric, cable.b)}) {
      if (!port) continue;
      port->cabled = true;
      port->link_speed = rate.speed;
      port->link_width = rate.width;
      port->link_mtu = rate.mtu;
    }
  }
}

// -- subnets: what is connected through cables and switches

class Groups {
 public:
  explicit Groups(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }
  u32 find(u32 i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(u32 a, u32 b) { parent_[find(a)] = find(b); }

 private:
  std::vector<u32> parent_;
};

// Switches are nodes 0..s-1 of the graph, HCA ports follow (an HCA does not forward between its ports).
u32 node_of(const CableEnd& end, const std::unordered_map<EndKey, u32>& port_nodes) {
  return end.kind == EndKind::sw ? end.node : port_nodes.at(key_of(end));
}

// Per graph node the number of its subnet, from 1 in order of first appearance among HCA ports, then switches.
std::vector<u32> find_subnets(Fabric& fabric) {
  u32 node = static_cast<u32>(fabric.switches.size());
  std::unordered_map<EndKey, u32> port_nodes;
  (void)each_port(fabric, [&](Where where, Hca&, Port&) -> Check {
    port_nodes.emplace(key_of({EndKind::hca, where.a, where.b, where.c + 1}), node++);
    return {};
  });
  Groups groups(node);
  for (const Cable& cable : fabric.cables) groups.join(node_of(cable.a, port_nodes), node_of(cable.b, port_nodes));
  std::unordered_map<u32, u32> numbers;
  auto number = [&](u32 i) {
    return numbers.emplace(groups.find(i), static_cast<u32>(numbers.size()) + 1).first->second;
  };
  std::vector<u32> result(node);
  for (u32 i = static_cast<u32>(fabric.switches.size()); i < node; ++i) result[i] = number(i);
  for (u32 i = 0; i < fabric.switches.size(); ++i) result[i] = number(i);
  return result;
}

// -- LIDs

class LidTable {
 public:
  Check reserve(u32 lid, u8 lmc, Where where, const std::string& owner) {
    u32 count = 1U << lmc;
    if (lid + count > ipc::lid_count)
      return fault(where, fmt::format("LID 0x{:x} of {} is no unicast LID (0x1 to 0xbfff)", lid, owner));
    if (lid % count != 0)
      return fault(where, fmt::format("LID 0x{:x} of {} is no multiple of {} (LMC {})", lid, owner, count, lmc));
    for (u32 each = lid; each < lid + count; ++each)
      if (auto [entry, fresh] = owners_.emplace(each, owner); !fresh)
        return fault(where, fmt::format("LID 0x{:x} of {} is that of {} too", each, owner, entry->second));
    return {};
  }
  // The first of 2^lmc LIDs; 0 when none are left.
  u16 next(u8 lmc) {
    u32 count = 1U << lmc;
    u32 lid = lmc ? (next_ + count - 1) / count * count : next_;
    while (lid + count <= ipc::lid_count && taken(lid, count)) lid += count;
    if (lid + count > ipc::lid_count) return 0;
    if (lmc)
      for (u32 each = lid; each < lid + count; ++each) owners_.emplace(each, std::string());
    else
      next_ = lid + 1;
    return static_cast<u16>(lid);
  }

 private:
  [[nodiscard]] bool taken(u32 first, u32 count) const {
    for (u32 lid = first; lid < first + count; ++lid)
      if (owners_.contains(lid)) return true;
    return false;
  }

  std::unordered_map<u32, std::string> owners_;
  u32 next_ = 1;  // all below are taken
};

Check check_lmcs(Fabric& fabric) {
  for (u32 s = 0; s < fabric.switches.size(); ++s) {
    const Switch& sw = fabric.switches[s];
    if (sw.lmc > most_lmc) return fault(at_switch(s), fmt::format("an LMC is 0 to {}, not {}", most_lmc, sw.lmc));
    if (sw.lmc && !sw.enhanced_port0)
      return fault(at_switch(s), fmt::format("switch '{}' has an LMC, but no enhanced port 0", sw.name));
  }
  return each_port(fabric, [](Where where, Hca&, Port& port) -> Check {
    if (port.lmc <= most_lmc) return {};
    return fault(where, fmt::format("an LMC is 0 to {}, not {}", most_lmc, port.lmc));
  });
}

std::string port_label(const Fabric& fabric, Where where) {
  return to_string(fabric, CableEnd{EndKind::hca, where.a, where.b, where.c + 1});
}

Check reserve_given_lids(Fabric& fabric, LidTable& table) {
  for (u32 s = 0; s < fabric.switches.size(); ++s)
    if (const Switch& sw = fabric.switches[s]; sw.lid)
      if (Check check = table.reserve(sw.lid, sw.lmc, at_switch(s), "switch " + sw.name); !check) return check;
  return each_port(fabric, [&](Where where, Hca&, Port& port) -> Check {
    return port.lid ? table.reserve(port.lid, port.lmc, where, port_label(fabric, where)) : Check{};
  });
}

// Switches first, as a subnet manager that starts there meets them. A port without a cable has no LID.
Check assign_missing_lids(Fabric& fabric, LidTable& table) {
  for (u32 s = 0; s < fabric.switches.size(); ++s) {
    Switch& sw = fabric.switches[s];
    if (!sw.lid && !(sw.lid = table.next(sw.lmc))) return fault(at_switch(s), "no LID left for this switch");
  }
  return each_port(fabric, [&](Where where, Hca&, Port& port) -> Check {
    if (port.cabled && !port.lid && !(port.lid = table.next(port.lmc)))
      return fault(where, "no LID left for this port");
    return {};
  });
}

Check refuse_lids(Fabric& fabric, std::string_view reason) {
  for (u32 s = 0; s < fabric.switches.size(); ++s)
    if (fabric.switches[s].lid)
      return fault(at_switch(s), fmt::format("switch '{}' has a LID, but {}", fabric.switches[s].name, reason));
  return each_port(fabric, [&](Where where, Hca&, Port& port) -> Check {
    return port.lid ? Check(fault(where, fmt::format("{} has a LID, but {}", port_label(fabric, where), reason)))
                    : Check{};
  });
}

// The subnet manager sits on a subnet's first switch, or without one on its first port.
void place_subnet_managers(Fabric& fabric, const std::vector<u32>& subnets) {
  std::unordered_map<u32, u16> manager;
  for (u32 s = 0; s < fabric.switches.size(); ++s) manager.emplace(subnets[s], fabric.switches[s].lid);
  u32 node = static_cast<u32>(fabric.switches.size());
  (void)each_port(fabric, [&](Where, Hca&, Port& port) -> Check {
    port.subnet = subnets[node++];
    const bool known = port.cabled && fabric.sm == SubnetManager::builtin;
    port.sm_lid = known ? manager.emplace(port.subnet, port.lid).first->second : u16{0};
    return {};
  });
}

Check assign_lids(Fabric& fabric) {
  if (Check check = check_lmcs(fabric); !check) return check;
  if (fabric.link_layer == LinkLayer::ethernet) return refuse_lids(fabric, "the link layer is Ethernet");
  if (fabric.sm == SubnetManager::none) return refuse_lids(fabric, "there is no subnet manager (sm: none)");
  LidTable table;
  if (Check check = reserve_given_lids(fabric, table); !check) return check;
  if (fabric.sm == SubnetManager::opensm) return {};  // it keeps those, and assigns the others itself
  return assign_missing_lids(fabric, table);
}

// -- partitions and addresses

constexpr u16 default_pkey = 0xffff;

Check fill_port(const Fabric& fabric, Where where, Port& port, u32 rail,
                std::unordered_map<u32, std::string>& addresses) {
  if (port.pkeys.empty()) port.pkeys = {default_pkey};
  if (!port.address) port.address = default_address(where.a, rail);
  auto [entry, fresh] = addresses.emplace(port.address, port_label(fabric, where));
  if (!fresh)
    return fault(where, fmt::format("address {} of {} is that of {} too", ipv4_text(port.address),
                                    port_label(fabric, where), entry->second));
  port.gids = initial_gids(fabric.link_layer, port);
  return {};
}

Check fill_ports(Fabric& fabric) {
  std::unordered_map<u32, std::string> addresses;
  u32 rail = 0;
  u32 host = 0;
  return each_port(fabric, [&](Where where, Hca&, Port& port) -> Check {
    if (std::exchange(host, where.a) != where.a) rail = 0;
    return fill_port(fabric, where, port, rail++, addresses);
  });
}

}  // namespace

LinkRate link_rate(const Fabric& fabric, const Cable& cable) {
  LinkRate a = ability_of(fabric, cable.a);
  LinkRate b = ability_of(fabric, cable.b);
  return {std::min({a.speed, b.speed, cable.speed.value_or(Speed::xdr)}),
          narrower(narrower(a.width, b.width), cable.width.value_or(Width::x12)), std::min(a.mtu, b.mtu)};
}

tl::expected<Fabric, Fault> complete_located(Fabric fabric) {
  if (Check check = add_aggregation_nodes(fabric); !check) return tl::unexpected<Fault>(check.error());
  if (Check check = check_names(fabric); !check) return tl::unexpected<Fault>(check.error());
  if (Check check = assign_guids(fabric); !check) return tl::unexpected<Fault>(check.error());
  if (Check check = check_cables(fabric); !check) return tl::unexpected<Fault>(check.error());
  train_links(fabric);
  if (Check check = assign_lids(fabric); !check) return tl::unexpected<Fault>(check.error());
  place_subnet_managers(fabric, find_subnets(fabric));
  if (Check check = fill_ports(fabric); !check) return tl::unexpected<Fault>(check.error());
  return fabric;
}

Parsed<Fabric> complete(Fabric fabric) {
  return complete_located(std::move(fabric)).map_error([](const Fault& found) { return Error{found.text}; });
}

Fabric default_fabric(std::string_view name, LinkLayer link_layer) {
  Fabric fabric;
  fabric.name = name;
  fabric.link_layer = link_layer;
  fabric.switches = {Switch{.name = "sw0"}};
  for (u32 h = 0; h < 2; ++h) {
    fabric.hosts.push_back({fmt::format("host{}", h), {Hca{.ports = {Port{}}}}});
    fabric.cables.push_back({CableEnd{EndKind::hca, h, 0, 1}, CableEnd{EndKind::sw, 0, 0, h + 1}, {}, {}});
  }
  auto completed = complete_located(fabric);
  return completed ? *completed : fabric;  // fails for an invalid name only; callers check that (valid_fabric_name)
}

}  // namespace softib::fabric
