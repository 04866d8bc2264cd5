#include "daemon/fault_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "fabric/faults/ends.h"
#include "fabric/faults/words.h"
#include "fabric/sysfs.h"

namespace softib::daemon {

namespace {

using fabric::CableEnd;
using fabric::EndKind;
using ipc::PortState;
using net::PortRef;
using nlohmann::json;

using EndKey = std::tuple<EndKind, u32, u32, u32>;
EndKey key_of(const CableEnd& end) { return {end.kind, end.node, end.hca, end.port}; }

json entry(std::string what, std::string fault) { return {{"what", std::move(what)}, {"fault", std::move(fault)}}; }

std::string rate_words(fabric::Speed speed, fabric::Width width) {
  return fmt::format("{} {}", fabric::name_of(width), fabric::name_of(speed));
}

std::string physical_name(net::PhysicalState state) {
  constexpr const char* names[] = {"", "Sleep", "Polling", "Disabled", "Training", "LinkUp", "LinkErrorRecovery"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(names) ? names[index] : "";
}

}  // namespace

FaultReport::FaultReport(const fabric::Fabric& fabric, const Plane& plane, Known known)
    : fabric_(fabric), plane_(plane), network_(plane.network()), known_(std::move(known)) {
  for (u32 host = 0; host < fabric.hosts.size(); ++host)
    for (u32 hca = 0; hca < fabric.hosts[host].hcas.size(); ++hca) hcas_.push_back({EndKind::hca, host, hca, 1});
}

CableEnd FaultReport::end_at(PortRef port) const {
  const auto switches = static_cast<u32>(fabric_.switches.size());
  if (port.node < switches) return {EndKind::sw, port.node, 0, port.port};
  CableEnd end = hcas_[port.node - switches];
  end.port = port.port;
  return end;
}

PortRef FaultReport::port_at(const CableEnd& end) const {
  const u32 node = end.kind == EndKind::sw ? network_.switch_node(end.node) : network_.hca_node(end.node, end.hca);
  return {node, static_cast<u8>(end.port)};
}

std::string FaultReport::name_of(PortRef port) const { return fabric::end_name(fabric_, end_at(port)); }

// Each cable once, by its first end.
std::vector<PortRef> FaultReport::links_now() const {
  std::vector<PortRef> links;
  for (u32 node = 0; node < network_.node_count(); ++node)
    for (u32 number = 1; number <= network_.port_count(node); ++number) {
      const PortRef port{node, static_cast<u8>(number)};
      if (const auto far = network_.other_end(port); far && port < *far) links.push_back(port);
    }
  return links;
}

bool FaultReport::is_flapping(PortRef port) const {
  const auto far = network_.other_end(port);
  return std::any_of(known_.flapping.begin(), known_.flapping.end(),
                     [&](PortRef flapping) { return flapping == port || (far && flapping == *far); });
}

FaultReport::Words FaultReport::faults_of(PortRef port) const {
  const net::LinkFaults faults = network_.faults(port);
  Words words;
  if (is_flapping(port)) words.emplace_back("flapping");
  if (faults.cut) words.emplace_back("down");
  if (faults.width) words.push_back("width " + fabric::name_of(*faults.width));
  if (faults.speed) words.push_back(fmt::format("speed {}", fabric::name_of(*faults.speed)));
  if (faults.quality.bit_error_rate > 0) words.push_back(fmt::format("ber {}", faults.quality.bit_error_rate));
  if (faults.quality.drop > 0) words.push_back(fmt::format("drop {:g}%", faults.quality.drop * 100));
  if (faults.quality.delay_ns > 0) words.push_back("delay " + fabric::time_words(faults.quality.delay_ns));
  return words;
}

// What is seen of a link that nobody has broken by these means: disabled by its manager, or slower than it could be.
void FaultReport::add_symptoms(PortRef port, Words& words) const {
  const PortRef far = *network_.other_end(port);
  if (!network_.is_on(port.node) || !network_.is_on(far.node)) return;
  const net::PortView near_view = network_.port(port);
  const net::PortView far_view = network_.port(far);
  const bool disabled =
      near_view.physical == net::PhysicalState::disabled || far_view.physical == net::PhysicalState::disabled;
  if (disabled)
    words.emplace_back("disabled");
  else if (near_view.state == PortState::down && words.empty())
    words.emplace_back("down");
}

void FaultReport::add_links(json& list) const {
  std::map<EndKey, fabric::LinkRate> rates;
  for (const fabric::Cable& cable : fabric_.cables) rates[key_of(cable.a)] = fabric::link_rate(fabric_, cable);
  for (const PortRef port : links_now()) {
    const PortRef far = *network_.other_end(port);
    Words words = faults_of(port);
    add_symptoms(port, words);
    const net::PortView view = network_.port(port);
    auto rate = rates.find(key_of(end_at(port)));
    if (rate == rates.end()) rate = rates.find(key_of(end_at(far)));
    const bool is_limited = network_.faults(port).speed || network_.faults(port).width;
    if (rate != rates.end() && view.state != PortState::down && !is_limited &&
        (view.speed != rate->second.speed || view.width != rate->second.width))
      words.push_back("runs at " + rate_words(view.speed, view.width));
    for (std::string& word : words) list.push_back(entry(name_of(port) + " - " + name_of(far), std::move(word)));
  }
}

// Cables that aren't where the file has them.
void FaultReport::add_cabling(json& list) const {
  for (const fabric::Cable& cable : fabric_.cables) {
    const auto far = network_.other_end(port_at(cable.a));
    if (far && *far == port_at(cable.b)) continue;
    list.push_back(entry(fabric::end_name(fabric_, cable.a) + " - " + fabric::end_name(fabric_, cable.b),
                         far ? "goes to " + name_of(*far) + " instead" : "is not plugged in"));
  }
}

void FaultReport::add_nodes(json& list) const {
  for (u32 i = 0; i < fabric_.switches.size(); ++i)
    if (!network_.is_on(network_.switch_node(i))) list.push_back(entry("switch " + fabric_.switches[i].name, "off"));
  for (const u32 host : known_.off) list.push_back(entry("host " + fabric_.hosts[host].name, "off"));
  for (const HcaPlace& at : known_.removed)
    list.push_back(entry(
        fmt::format("hca {}/{}", fabric_.hosts[at.host].name, fabric_.hosts[at.host].hcas[at.hca].name), "removed"));
  if (plane_.managers_stopped()) list.push_back(entry("subnet manager", "dead"));
}

void FaultReport::add_counters(json& list) const {
  for (u32 node = 0; node < network_.node_count(); ++node)
    for (u32 number = 1; number <= network_.port_count(node); ++number) {
      const PortRef port{node, static_cast<u8>(number)};
      if (network_.is_stuck(port)) list.push_back(entry(name_of(port), "counters stuck"));
    }
}

json FaultReport::links() const {
  json list = json::array();
  for (const PortRef port : links_now()) {
    const PortRef far = *network_.other_end(port);
    const net::PortView near_view = network_.port(port);
    const net::PortView far_view = network_.port(far);
    Words words = faults_of(port);
    add_symptoms(port, words);
    const PortState state = std::min(near_view.state, far_view.state);
    const bool up = state != PortState::down;
    list.push_back({{"ends", {name_of(port), name_of(far)}},
                    {"state", fabric::name_of(state)},
                    {"physical", physical_name(near_view.physical)},
                    {"width", up ? json(fabric::name_of(near_view.width)) : json()},
                    {"speed", up ? json(fabric::name_of(near_view.speed)) : json()},
                    {"faults", words}});
  }
  return list;
}

json FaultReport::faults() const {
  json list = json::array();
  add_nodes(list);
  add_links(list);
  add_cabling(list);
  add_counters(list);
  return list;
}

}  // namespace softib::daemon
