#include "fabric/topo/export.h"

#include <fmt/format.h>

#include <iterator>
#include <unordered_map>

namespace softib::fabric::topo {

namespace {

using Out = std::back_insert_iterator<std::string>;

struct Link {
  const CableEnd* remote = nullptr;
  LinkRate rate;
};

// The link at every port of every node.
class Links {
 public:
  explicit Links(const Fabric& fabric) {
    switches_.resize(fabric.switches.size());
    hosts_.resize(fabric.hosts.size());
    for (size_t s = 0; s < fabric.switches.size(); ++s) switches_[s].resize(fabric.switches[s].ports + 1);
    for (size_t h = 0; h < fabric.hosts.size(); ++h)
      for (const Hca& hca : fabric.hosts[h].hcas) hosts_[h].emplace_back(hca.ports.size() + 1);
    for (const Cable& cable : fabric.cables) {
      LinkRate rate = link_rate(fabric, cable);
      at(cable.a) = {&cable.b, rate};
      at(cable.b) = {&cable.a, rate};
    }
  }

  [[nodiscard]] const std::vector<Link>& of_switch(size_t s) const { return switches_[s]; }
  [[nodiscard]] const std::vector<Link>& of_hca(size_t h, size_t d) const { return hosts_[h][d]; }

 private:
  Link& at(const CableEnd& end) {
    return end.kind == EndKind::sw ? switches_[end.node][end.port] : hosts_[end.node][end.hca][end.port];
  }

  std::vector<std::vector<Link>> switches_;
  std::vector<std::vector<std::vector<Link>>> hosts_;
};

// What a line says about the node at a link's other end.
struct Remote {
  std::string id;
  std::string guid;  // " (2c9...)" of a CA's port
  std::string description;
  u16 lid = 0;
};

std::string switch_id(const Switch& sw) { return fmt::format("\"S-{:016x}\"", sw.node_guid); }
std::string hca_id(const Hca& hca) { return fmt::format("\"H-{:016x}\"", hca.node_guid); }
std::string rate_text(const LinkRate& rate) { return name_of(rate.width) + std::string(name_of(rate.speed)); }

Remote describe(const Fabric& fabric, const CableEnd& end) {
  if (end.kind == EndKind::sw) {
    const Switch& sw = fabric.switches[end.node];
    return {switch_id(sw), {}, node_description(sw), sw.lid};
  }
  const Host& host = fabric.hosts[end.node];
  const Hca& hca = host.hcas[end.hca];
  const Port& port = hca.ports[end.port - 1];
  return {hca_id(hca), fmt::format("({:x}) ", port.guid), node_description(host, hca), port.lid};
}

void emit_ids(Out out, const Make& make, u64 system_guid) {
  fmt::format_to(out, "\nvendid=0x{:x}\ndevid=0x{:x}\nsysimgguid=0x{:x}\n", make.vendor_id, make.device_id,
                 system_guid);
}

void emit_switch(Out out, const Fabric& fabric, const Switch& sw, const std::vector<Link>& links) {
  emit_ids(out, make_of(sw), sw.system_guid);
  fmt::format_to(out, "switchguid=0x{:x}({:x})\n", sw.node_guid, sw.port_guid);
  fmt::format_to(out, "Switch\t{} {}\t\t# \"{}\" {} port 0 lid {} lmc {}\n", sw.ports, switch_id(sw),
                 node_description(sw), sw.enhanced_port0 ? "enhanced" : "base", sw.lid, sw.lmc);
  for (u32 p = 1; p < links.size(); ++p) {
    if (!links[p].remote) continue;
    Remote remote = describe(fabric, *links[p].remote);
    fmt::format_to(out, "[{}]\t{}[{}]{}\t\t# \"{}\" lid {} {}\n", p, remote.id, links[p].remote->port, remote.guid,
                   remote.description, remote.lid, rate_text(links[p].rate));
  }
}

void emit_hca(Out out, const Fabric& fabric, const Host& host, const Hca& hca, const std::vector<Link>& links) {
  emit_ids(out, make_of(hca), hca.system_guid);
  fmt::format_to(out, "caguid=0x{:x}\nCa\t{} {}\t\t# \"{}\"\n", hca.node_guid, hca.ports.size(), hca_id(hca),
                 node_description(host, hca));
  for (u32 p = 1; p < links.size(); ++p) {
    if (!links[p].remote) continue;
    const Port& port = hca.ports[p - 1];
    Remote remote = describe(fabric, *links[p].remote);
    fmt::format_to(out, "[{}]({:x}) \t{}[{}]{}{}\t\t# lid {} lmc {} \"{}\" lid {} {}\n", p, port.guid, remote.id,
                   links[p].remote->port, remote.guid.empty() ? "" : " ", remote.guid, port.lid, port.lmc,
                   remote.description, remote.lid, rate_text(links[p].rate));
  }
}

void emit_head(Out out, const Fabric& fabric) {
  fmt::format_to(out, "#\n# Topology file: fabric '{}' of SoftIB\n#\n", fabric.name);
  for (const Host& host : fabric.hosts)
    if (!host.hcas.empty()) {
      const Hca& hca = host.hcas[0];
      fmt::format_to(out, "# Initiated from node {:016x} port {:016x}\n", hca.node_guid, hca.ports[0].guid);
      return;
    }
}

}  // namespace

std::string to_ibnetdiscover(const Fabric& fabric) {
  std::string text;
  Out out(text);
  Links links(fabric);
  emit_head(out, fabric);
  for (size_t s = 0; s < fabric.switches.size(); ++s) emit_switch(out, fabric, fabric.switches[s], links.of_switch(s));
  for (size_t h = 0; h < fabric.hosts.size(); ++h)
    for (size_t d = 0; d < fabric.hosts[h].hcas.size(); ++d)
      emit_hca(out, fabric, fabric.hosts[h], fabric.hosts[h].hcas[d], links.of_hca(h, d));
  return text;
}

}  // namespace softib::fabric::topo
