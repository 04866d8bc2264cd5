#include <fmt/format.h>

#include <iterator>

#include "fabric/addresses.h"
#include "fabric/fabric.h"

namespace softib::fabric {

namespace {

using Out = std::back_insert_iterator<std::string>;

// Names made of digits only, or words such as `no` and `null`, would not read back as text.
std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else
      result += c;
  }
  return result + "\"";
}

void emit_pkeys(Out out, const std::vector<u16>& pkeys) {
  std::string_view separator;
  fmt::format_to(out, ", pkeys: [");
  for (u16 pkey : pkeys) {
    fmt::format_to(out, "{}0x{:04x}", separator, pkey);
    separator = ", ";
  }
  fmt::format_to(out, "]");
}

void emit_port(Out out, const Port& port) {
  fmt::format_to(out, "          - {{number: {}, guid: 0x{:016x}, speed: {}, width: {}, mtu: {}", port.number,
                 port.guid, name_of(port.speed), name_of(port.width), bytes_of(port.mtu));
  if (port.lid) fmt::format_to(out, ", lid: 0x{:x}", port.lid);
  if (port.lmc) fmt::format_to(out, ", lmc: {}", port.lmc);
  if (port.address) fmt::format_to(out, ", address: {}", ipv4_text(port.address));
  emit_pkeys(out, port.pkeys);
  fmt::format_to(out, "}}\n");
}

void emit_hca(Out out, const Hca& hca) {
  fmt::format_to(out, "      - name: {}\n        model: {}\n", in_quotes(hca.name), hca.model);
  fmt::format_to(out, "        node_guid: 0x{:016x}\n        system_guid: 0x{:016x}\n", hca.node_guid, hca.system_guid);
  if (hca.vendor_id) fmt::format_to(out, "        vendor_id: 0x{:x}\n", hca.vendor_id);
  if (hca.device_id) fmt::format_to(out, "        device_id: 0x{:x}\n", hca.device_id);
  if (!hca.description.empty()) fmt::format_to(out, "        description: {}\n", in_quotes(hca.description));
  fmt::format_to(out, "        ports:\n");
  for (const Port& port : hca.ports) emit_port(out, port);
}

void emit_host(Out out, const Host& host) {
  fmt::format_to(out, "  - name: {}\n", in_quotes(host.name));
  if (host.kind == HostKind::aggregation) fmt::format_to(out, "    kind: aggregation\n");
  fmt::format_to(out, "    hcas:{}\n", host.hcas.empty() ? " []" : "");
  for (const Hca& hca : host.hcas) emit_hca(out, hca);
}

void emit_switch(Out out, const Switch& sw) {
  fmt::format_to(out, "  - {{name: {}, ports: {}, node_guid: 0x{:016x}, speed: {}, width: {}, mtu: {}",
                 in_quotes(sw.name), sw.ports, sw.node_guid, name_of(sw.speed), name_of(sw.width), bytes_of(sw.mtu));
  if (sw.lid) fmt::format_to(out, ", lid: 0x{:x}", sw.lid);
  if (sw.lmc) fmt::format_to(out, ", lmc: {}", sw.lmc);
  if (sw.enhanced_port0) fmt::format_to(out, ", enhanced_port0: true");
  if (sw.aggregation) fmt::format_to(out, ", aggregation: true");
  if (sw.port_guid != sw.node_guid) fmt::format_to(out, ", port_guid: 0x{:016x}", sw.port_guid);
  if (sw.system_guid != sw.node_guid) fmt::format_to(out, ", system_guid: 0x{:016x}", sw.system_guid);
  if (sw.vendor_id) fmt::format_to(out, ", vendor_id: 0x{:x}", sw.vendor_id);
  if (sw.device_id) fmt::format_to(out, ", device_id: 0x{:x}", sw.device_id);
  if (!sw.description.empty()) fmt::format_to(out, ", description: {}", in_quotes(sw.description));
  fmt::format_to(out, "}}\n");
}

void emit_cable(Out out, const Fabric& fabric, const Cable& cable) {
  std::string ends =
      fmt::format("[{}, {}]", in_quotes(to_string(fabric, cable.a)), in_quotes(to_string(fabric, cable.b)));
  if (!cable.speed && !cable.width) {
    fmt::format_to(out, "  - {}\n", ends);
    return;
  }
  fmt::format_to(out, "  - {{ends: {}", ends);
  if (cable.speed) fmt::format_to(out, ", speed: {}", name_of(*cable.speed));
  if (cable.width) fmt::format_to(out, ", width: {}", name_of(*cable.width));
  fmt::format_to(out, "}}\n");
}

template <typename List, typename Text>
void emit_list(Out out, std::string_view key, const List& list, Text text) {
  if (list.empty()) return;
  std::string_view separator;
  fmt::format_to(out, ", {}: [", key);
  for (const auto& entry : list) {
    fmt::format_to(out, "{}{}", separator, in_quotes(text(entry)));
    separator = ", ";
  }
  fmt::format_to(out, "]");
}

void emit_manager(Out out, const Fabric& fabric) {
  const ManagerOptions& options = fabric.manager;
  if (options == ManagerOptions{}) {
    fmt::format_to(out, "sm: {}\n", name_of(fabric.sm));
    return;
  }
  fmt::format_to(out, "sm: {{kind: {}, priority: {}, sweep_interval: {}", name_of(fabric.sm), options.priority,
                 options.sweep_interval);
  const bool several = options.routing.find(',') != options.routing.npos;
  const std::string_view open = several ? "[" : "", close = several ? "]" : "";
  if (!options.routing.empty()) fmt::format_to(out, ", routing: {}{}{}", open, options.routing, close);
  emit_list(out, "ports", options.ports, [&](const CableEnd& end) { return to_string(fabric, end); });
  emit_list(out, "args", options.args, [](const std::string& arg) { return arg; });
  if (!options.folder.empty()) fmt::format_to(out, ", folder: {}", in_quotes(options.folder));
  fmt::format_to(out, "}}\n");
}

void emit_namespaces(Out out, const Fabric& fabric) {
  if (fabric.own_pids)
    fmt::format_to(out, "namespaces: {{use: {}, pid: true}}\n", name_of(fabric.namespaces));
  else if (fabric.namespaces != Namespaces::automatic)
    fmt::format_to(out, "namespaces: {}\n", name_of(fabric.namespaces));
}

void emit_ipoib(Out out, const Ipoib& ipoib) {
  if (ipoib.mtu != 0)
    fmt::format_to(out, "ipoib: {{mode: {}, mtu: {}}}\n", name_of(ipoib.mode), ipoib.mtu);
  else if (ipoib.mode != IpoibMode::datagram)
    fmt::format_to(out, "ipoib: {}\n", name_of(ipoib.mode));
}

}  // namespace

std::string to_yaml(const Fabric& fabric) {
  std::string text;
  Out out(text);
  fmt::format_to(out, "fabric: {}\n", in_quotes(fabric.name));
  fmt::format_to(out, "link_layer: {}\n", fabric.link_layer == LinkLayer::ethernet ? "ethernet" : "infiniband");
  emit_manager(out, fabric);
  if (!fabric.partitions.empty()) fmt::format_to(out, "partitions: {}\n", in_quotes(fabric.partitions));
  if (fabric.pace) fmt::format_to(out, "pace: true\n");
  emit_namespaces(out, fabric);
  emit_ipoib(out, fabric.ipoib);
  fmt::format_to(out, "hosts:\n");
  for (const Host& host : fabric.hosts) emit_host(out, host);
  fmt::format_to(out, "switches:{}\n", fabric.switches.empty() ? " []" : "");
  for (const Switch& sw : fabric.switches) emit_switch(out, sw);
  fmt::format_to(out, "cables:{}\n", fabric.cables.empty() ? " []" : "");
  for (const Cable& cable : fabric.cables) emit_cable(out, fabric, cable);
  return text;
}

}  // namespace softib::fabric
