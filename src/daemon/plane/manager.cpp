#include "daemon/plane/manager.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/durations.h"
#include "wire/pkey.h"

namespace softib::daemon {

namespace {

using net::PortRef;

// Walks what is connected. An HCA does not join the subnets of its ports; a switch joins all of its own.
class SubnetWalk {
 public:
  explicit SubnetWalk(const net::Network& network) : network_(network), seen_(network.node_count()) {
    for (u32 node = 0; node < network.node_count(); ++node) seen_[node].resize(network.port_count(node) + 1U);
  }

  [[nodiscard]] bool seen(PortRef port) const { return seen_[port.node][port.port]; }

  // All ports of the subnet that are not port 0.
  std::vector<PortRef> ports_from(PortRef start) {
    std::vector<PortRef> queue;
    reach(start, queue);
    for (size_t at = 0; at < queue.size(); ++at)
      if (auto far = network_.other_end(queue[at])) reach(*far, queue);
    return queue;
  }

  // The first switch of the subnet, or `start` where it has none.
  PortRef place_from(PortRef start) {
    std::optional<u32> first_switch;
    for (const PortRef port : ports_from(start))
      if (network_.kind(port.node) == net::NodeKind::sw)
        first_switch = std::min(first_switch.value_or(port.node), port.node);
    return first_switch ? PortRef{*first_switch, 0} : start;
  }

 private:
  void reach(PortRef port, std::vector<PortRef>& queue) {
    if (seen(port)) return;
    const bool joins = network_.kind(port.node) == net::NodeKind::sw;
    const u8 first = joins ? 1 : port.port;
    const u8 last = joins ? network_.port_count(port.node) : port.port;
    for (u32 number = first; number <= last; ++number) {
      seen_[port.node][number] = true;
      queue.push_back({port.node, static_cast<u8>(number)});
    }
  }

  const net::Network& network_;
  std::vector<std::vector<bool>> seen_;
};

}  // namespace

std::vector<PortRef> places_for_managers(const net::Network& network) {
  std::vector<PortRef> places;
  SubnetWalk walk(network);
  for (u32 node = 0; node < network.node_count(); ++node) {
    for (u32 number = 1; number <= network.port_count(node); ++number) {
      const PortRef port{node, static_cast<u8>(number)};
      if (!walk.seen(port) && network.other_end(port)) places.push_back(walk.place_from(port));
    }
  }
  return places;
}

bool subnet_is_active(const net::Network& network, PortRef from) {
  bool any = false;
  for (const PortRef port : SubnetWalk(network).ports_from(from)) {
    const net::PortView view = network.port(port);
    if (view.physical != net::PhysicalState::up) continue;
    if (view.state != ipc::PortState::active) return false;
    any = true;
  }
  return any;
}

namespace {

using Members = std::map<u64, u32>;  // by port GUID: 1 limited, 2 full, 3 both

std::string line_of(u16 key, const Members& members) {
  constexpr std::array names{"", "limited", "full", "both"};
  std::string text = key == wire::default_key ? std::string("Default=0x7fff,ipoib : ALL_SWITCHES=full")
                                              : fmt::format("p{0:x}=0x{0:04x} : ", key);
  const char* between = key == wire::default_key ? ", " : "";
  for (const auto& [guid, membership] : members) {
    text += fmt::format("{}0x{:x}={}", between, guid, names[membership]);
    between = ", ";
  }
  return text + ";\n";
}

}  // namespace

std::string partitions_of(const fabric::Fabric& fabric) {
  if (!fabric.partitions.empty()) return fabric.partitions;
  std::map<u16, Members> partitions;  // by key without the membership bit
  bool is_default = true;
  for (const fabric::Host& host : fabric.hosts)
    for (const fabric::Hca& hca : host.hcas)
      for (const fabric::Port& port : hca.ports) {
        is_default = is_default && port.pkeys == std::vector<u16>{wire::default_key | wire::full_member};
        for (u16 key : port.pkeys) partitions[key & wire::default_key][port.guid] |= key & wire::full_member ? 2 : 1;
      }
  std::string text;
  for (const auto& [key, members] : partitions) text += line_of(key, members);
  return is_default ? "" : text;
}

sm::Options manager_options(const fabric::Fabric& fabric) {
  const fabric::ManagerOptions& wanted = fabric.manager;
  sm::Options options;
  if (wanted.routing == "updn") options.routing = sm::Routing::updn;
  if (wanted.routing == "ftree") options.routing = sm::Routing::ftree;
  options.priority = wanted.priority;
  options.sweep_interval_ns = wanted.sweep_interval * ns::second;
  options.partitions = partitions_of(fabric);
  options.only_named_members = fabric.partitions.empty();
  return options;
}

Plane::Manager::Manager(net::Network& network, PortRef place, const sm::Options& options)
    : network_(network), place_(place) {
  manager_ = sm::SubnetManager::create(options, network.port(place).guid, *this);
  network.set_capabilities(place, IBV_PORT_SM, true);
}

bool Plane::Manager::wants(const wire::Packet& packet) {
  constexpr u16 sm_info = 0x20;
  if (wire::class_of(packet.mad) == wire::MgmtClass::subn_adm) return true;
  if (!wire::is_smp(packet.mad)) return false;
  return wire::method_of(packet.mad) == wire::Method::trap || wire::attribute_of(packet.mad) == sm_info;
}

void Plane::Manager::log(std::string_view line) { spdlog::info("subnet manager: {}", line); }

}  // namespace softib::daemon
