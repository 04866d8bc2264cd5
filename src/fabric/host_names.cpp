#include "fabric/host_names.h"

#include <fmt/format.h>

#include <iterator>

#include "fabric/addresses.h"

namespace softib::fabric {

namespace {

using Out = std::back_insert_iterator<std::string>;

void add_line(Out out, const std::string& address, std::string_view names) {
  fmt::format_to(out, "{:<15} {}\n", address, names);
}

template <typename Visit>
void each_port(const Host& host, Visit visit) {
  u32 index = 0;
  for (const Hca& hca : host.hcas)
    for (const Port& port : hca.ports) visit(index++, port);
}

template <typename Visit>
void each_server(const Fabric& fabric, Visit visit) {
  for (u32 i = 0; i < fabric.hosts.size(); ++i)
    if (fabric.hosts[i].kind == HostKind::server) visit(i, fabric.hosts[i]);
}

}  // namespace

std::string interface_name(LinkLayer link_layer, u32 port) {
  return fmt::format("{}{}", link_layer == LinkLayer::ethernet ? "roce" : "ib", port);
}

std::string hosts_text(const Fabric& fabric, std::string_view machine) {
  std::string text = "127.0.0.1       localhost\n::1             localhost ip6-localhost ip6-loopback\n";
  Out out(text);
  each_server(fabric, [&](u32 number, const Host& host) {
    add_line(out, ipv4_text(ethernet_address(number)), host.name);
    each_port(host, [&](u32 index, const Port& port) {
      add_line(out, ipv4_text(port.address), host.name + "-" + interface_name(fabric.link_layer, index));
    });
    add_line(out, ipv6_text(ethernet_address6(number)), host.name + "-ip6");
  });
  if (!machine.empty() && !find_host(fabric, machine)) add_line(out, ipv4_text(machine_address), machine);
  return text;
}

std::string plain_hosts_text(const Fabric& fabric) {
  std::string text;
  Out out(text);
  each_server(fabric, [&](u32 number, const Host& host) {
    if (host.hcas.empty()) add_line(out, ipv4_text(loopback_address(number, 0)), host.name);
    each_port(host, [&](u32 index, const Port&) {
      const std::string name = host.name + "-" + interface_name(fabric.link_layer, index);
      add_line(out, ipv4_text(loopback_address(number, index)), index == 0 ? host.name + " " + name : name);
    });
  });
  return text;
}

}  // namespace softib::fabric
