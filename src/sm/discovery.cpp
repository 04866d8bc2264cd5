#include "sm/discovery.h"

#include <fmt/format.h>

#include <algorithm>

namespace softib::sm {

using wire::Mad;
using wire::pkey_table::keys_per_block;

namespace {

u64 guid_of_end(const Node& node) { return wire::get(node.info, node_info::port_guid); }

std::string name(const Subnet& subnet, End end) { return fmt::format("{} port {}", subnet.node(end).name(), end.port); }

}  // namespace

void Discovery::start() {
  subnet_ = {};
  by_guid_.clear();
  ca_claims_.clear();
  silent_ = 0;
  ask_node(Path{}, End{});
}

void Discovery::ask_node(const Path& path, End from) {
  requests_.get(path, SmpAttribute::node_info, 0,
                [this, path, from](const Mad* mad) { node_answered(mad, path, from); });
}

void Discovery::node_answered(const Mad* mad, const Path& path, End from) {
  if (!mad) {
    ++silent_;
    return;
  }
  const auto info = data_of(*mad).first(node_info_size);
  const auto port = static_cast<u8>(wire::get(info, node_info::local_port));
  const auto ports = static_cast<u8>(wire::get(info, node_info::num_ports));
  const u64 guid = wire::get(info, node_info::node_guid);
  const auto type = wire::get(info, node_info::node_type);
  if (port > ports || ports == no_port || type < 1 || type > 3) return;  // nonsense

  const auto [at, fresh] = by_guid_.emplace(guid, static_cast<u32>(subnet_.nodes.size()));
  const u32 node = fresh ? add_node(info, path) : at->second;
  if (port >= subnet_.nodes[node].ports.size()) return;  // another node with the same GUID
  if (fresh && from.node == nowhere) subnet_.own = {node, static_cast<u8>(subnet_.nodes[node].is_switch() ? 0 : port)};
  if (from.node != nowhere) claim(from, {node, port});
  if (fresh) ask_about(node, path);
  if (!subnet_.nodes[node].is_switch() && !subnet_.nodes[node].ports[port].known) {
    subnet_.nodes[node].ports[port].known = true;
    subnet_.nodes[node].ports[port].guid = wire::get(info, node_info::port_guid);
    subnet_.nodes[node].ports[port].path = path;
    ask_port(node, port);
  }
}

u32 Discovery::add_node(std::span<const u8> info, const Path& path) {
  const auto number = static_cast<u32>(subnet_.nodes.size());
  Node& node = subnet_.nodes.emplace_back();
  std::copy(info.begin(), info.end(), node.info.begin());
  node.kind = static_cast<Kind>(wire::get(info, node_info::node_type));
  node.guid = wire::get(info, node_info::node_guid);
  node.ports.resize(wire::get(info, node_info::num_ports) + 1);
  if (node.is_switch()) {
    node.sw = static_cast<u32>(subnet_.switches.size());
    subnet_.switches.push_back(number);
    node.ports[0].path = path;
    node.ports[0].guid = guid_of_end(node);
  }
  return number;
}

void Discovery::ask_about(u32 number, const Path& path) {
  requests_.get(path, SmpAttribute::node_description, 0, [this, number](const Mad* mad) {
    if (!mad) return void(++silent_);
    std::copy_n(data_of(*mad).begin(), 64, subnet_.nodes[number].description.begin());
  });
  if (!subnet_.nodes[number].is_switch()) return;
  requests_.get(path, SmpAttribute::switch_info, 0, [this, number](const Mad* mad) {
    if (!mad) return void(++silent_);
    std::copy_n(data_of(*mad).begin(), switch_info_size, subnet_.nodes[number].switch_info.begin());
  });
  Node& node = subnet_.nodes[number];
  for (u32 port = 0; port < node.ports.size(); ++port) {
    node.ports[port].known = true;
    ask_port(number, static_cast<u8>(port));
  }
}

void Discovery::ask_port(u32 node, u8 port) {
  requests_.get(subnet_.path({node, port}), SmpAttribute::port_info, port | port_info::sm_supports_ext_speeds,
                [this, node, port](const Mad* mad) { port_answered(mad, node, port); });
}

void Discovery::port_answered(const Mad* mad, u32 number, u8 port_number) {
  if (!mad) {
    ++silent_;
    return;
  }
  Node& node = subnet_.nodes[number];
  Port& port = node.ports[port_number];
  std::copy_n(data_of(*mad).begin(), port_info_size, port.info.begin());
  if (!node.is_switch() || port_number == 0) ask_pkeys({number, port_number});
  const bool up = port.state() >= LinkState::init;
  const bool leads_on = node.is_switch() ? port_number != 0 : subnet_.own == End{number, port_number};
  if (!up || !leads_on) return;
  if (const auto further = subnet_.path({number, port_number}).then(port_number))
    ask_node(*further, {number, port_number});
}

void Discovery::ask_pkeys(End end) {
  const auto capacity = static_cast<u32>(wire::get(subnet_.node(end).info, node_info::partition_cap));
  subnet_.port(end).pkeys.assign(std::clamp<u32>(capacity, 1, 2048), 0);
  ask_pkey_block(end, 0);
}

void Discovery::ask_pkey_block(End end, u32 block) {
  requests_.get(subnet_.path(end), SmpAttribute::pkey_table, block, [this, end, block](const Mad* mad) {
    if (!mad) return void(++silent_);
    auto& pkeys = subnet_.port(end).pkeys;
    bool full = true;
    for (u32 i = 0; i < keys_per_block && block * keys_per_block + i < pkeys.size(); ++i) {
      const auto key = static_cast<u16>(wire::get(data_of(*mad), Field{static_cast<u16>(i * 16), 16}));
      pkeys[block * keys_per_block + i] = key;
      full = full && key != 0;
    }
    if (full && (block + 1) * keys_per_block < pkeys.size()) ask_pkey_block(end, block + 1);
  });
}

// Notes that `from` leads to `to`.
void Discovery::claim(End from, End to) {
  subnet_.port(from).peer = to;
  if (!subnet_.node(to).is_switch() || subnet_.node(from).kind != Kind::sw) ca_claims_.push_back({from, to});
}

Subnet Discovery::finish(Mouth& mouth) {
  check_links(mouth);
  list_ends(mouth);
  by_guid_.clear();
  return std::move(subnet_);
}

// Cables into CAs and routers first: whoever came first keeps the port. Then those between switches, which both ends
// must tell of.
void Discovery::check_links(Mouth& mouth) {
  for (const Claim& claim : ca_claims_) {
    const bool from_ca = !subnet_.node(claim.from).is_switch();  // the manager's own cable
    Port& there = subnet_.port(claim.to);
    if (!there.linked() || there.peer == claim.from || (from_ca && subnet_.node(claim.to).is_switch())) {
      there.peer = claim.from;
      continue;
    }
    mouth.log(fmt::format("duplicate node GUID {}: reached over {} and over {}; the second is left out",
                          hex(subnet_.node(claim.to).guid), name(subnet_, there.peer), name(subnet_, claim.from)));
    subnet_.port(claim.from).peer = {};
  }
  for (u32 number : subnet_.switches)
    for (u32 port = 1; port < subnet_.nodes[number].ports.size(); ++port)
      check_link({number, static_cast<u8>(port)}, mouth);
}

void Discovery::check_link(End from, Mouth& mouth) {
  const End to = subnet_.port(from).peer;
  if (to.node == nowhere || subnet_.port(to).peer == from) return;
  mouth.log(fmt::format("{} says that it is cabled to {}, which does not; a duplicate GUID, or it was just changed",
                        name(subnet_, from), name(subnet_, to)));
  subnet_.port(from).peer = {};
}

void Discovery::list_ends(Mouth& mouth) {
  for (u32 number = 0; number < subnet_.nodes.size(); ++number) {
    Node& node = subnet_.nodes[number];
    for (u32 port = node.is_switch() ? 0 : 1; port < (node.is_switch() ? 1 : node.ports.size()); ++port) {
      if (!node.ports[port].known) continue;
      const auto place = static_cast<u32>(subnet_.ends.size());
      if (!subnet_.by_port_guid.emplace(node.ports[port].guid, place).second)
        mouth.log(fmt::format("duplicate port GUID {} at {}", hex(node.ports[port].guid), node.name()));
      subnet_.ends.push_back({number, static_cast<u8>(port)});
    }
  }
}

}  // namespace softib::sm
