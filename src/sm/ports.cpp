#include "sm/ports.h"

#include <algorithm>

namespace softib::sm {

using wire::pkey_table::keys_per_block;

namespace {

// Port 0 of a switch has no cable; an enhanced one has states like a CA's port. A base one has always been ACTIVE.
bool comes_up(const Subnet& subnet, End end) {
  return subnet.port(end).linked() || (subnet.node(end).is_switch() && end.port == 0);
}

bool on_its_way(const Port& port) { return port.state() == LinkState::init || port.state() == LinkState::armed; }

// Calls with each port that the manager looks after: end ports, and both ends of links.
template <typename Call>
void for_each_port(const Subnet& subnet, Call call) {
  for (u32 number = 0; number < subnet.nodes.size(); ++number) {
    const Node& node = subnet.nodes[number];
    for (u32 port = 0; port < node.ports.size(); ++port)
      if (const End end{number, static_cast<u8>(port)}; node.ports[port].known && comes_up(subnet, end)) call(end);
  }
}

// Fields that a Set must not change by accident: zero means "leave it" in these.
constexpr Field left_alone[] = {port_info::port_state,
                                port_info::physical_state,
                                port_info::link_down_default_state,
                                port_info::link_width_enabled,
                                port_info::link_speed_enabled,
                                port_info::link_speed_ext_enabled,
                                port_info::link_speed_ext2_enabled,
                                port_info::local_port,
                                port_info::client_reregister};

}  // namespace

PortSetup::Info PortSetup::wanted(const Subnet& subnet, End end, bool greet) const {
  const Port& port = subnet.port(end);
  const bool is_switch = subnet.node(end).is_switch();
  Info info = port.info;
  for (const Field field : left_alone) wire::set(info, field, 0);
  wire::set(info, port_info::m_key_lease_period, 0);
  wire::set(info, port_info::subnet_timeout, options_.subnet_timeout);
  if (!is_switch || end.port == 0) {
    wire::set(info, port_info::m_key, 0);
    wire::set(info, port_info::gid_prefix, options_.subnet_prefix);
    wire::set(info, port_info::lid, port.lid);
    wire::set(info, port_info::lmc, port.lmc);
    wire::set(info, port_info::sm_lid, subnet.own_lid());
    wire::set(info, port_info::sm_sl, 0);
  }
  const bool begins = comes_up(subnet, end) && port.state() == LinkState::init;
  if (begins) wire::set(info, port_info::port_state, static_cast<u8>(LinkState::armed));
  if (!port.linked()) return info;
  const Port& peer = subnet.port(port.peer);
  const auto least = [&](Field field) { return std::min(port.get(field), peer.get(field)); };
  if (const u64 mtu = least(port_info::mtu_cap)) wire::set(info, port_info::neighbor_mtu, mtu);
  if (const u64 vls = least(port_info::vl_cap)) wire::set(info, port_info::operational_vls, vls);
  if (!is_switch && (greet || begins) && (port.get(port_info::capability_mask) & port_cap::client_reregistration))
    wire::set(info, port_info::client_reregister, 1);
  return info;
}

void PortSetup::arm(Subnet& subnet, const fabric::Partitions& partitions, bool greet) {
  failures_ = 0;
  for_each_port(subnet, [&](End end) {
    const Info info = wanted(subnet, end, greet);
    Info present = subnet.port(end).info;
    for (const Field field : left_alone) wire::set(present, field, 0);
    if (info != present) set(subnet, end, info);
  });
  for (const End end : subnet.ends) {
    const Port& port = subnet.port(end);
    if (port.linked() || subnet.node(end).is_switch())
      set_pkeys(subnet, end, partitions.keys(subnet.node(end).kind, port.guid, end == subnet.own));
  }
}

void PortSetup::set(Subnet& subnet, End end, const Info& info) {
  requests_.set(subnet.path(end), SmpAttribute::port_info, end.port | port_info::sm_supports_ext_speeds, info,
                [this, &subnet, end](const wire::Mad* mad) {
                  if (!mad) {
                    ++failures_;
                    return;
                  }
                  std::copy_n(data_of(*mad).begin(), port_info_size, subnet.port(end).info.begin());
                });
}

// Keys that stay keep their places: queue pairs refer to them by index.
void PortSetup::set_pkeys(Subnet& subnet, End end, const std::vector<u16>& keys) {
  std::vector<u16>& table = subnet.port(end).pkeys;
  if (table.empty()) return;
  std::vector<u16> next = table;
  for (u32 i = 0; i < next.size(); ++i) {
    const bool keep = std::find(keys.begin(), keys.end(), next[i]) != keys.end();
    if (!keep || std::find(next.begin(), next.begin() + i, next[i]) != next.begin() + i) next[i] = 0;
  }
  if (!keys.empty() && next[0] != keys[0]) {
    std::replace(next.begin(), next.end(), keys[0], u16{0});
    if (next[0] != 0)
      if (const auto place = std::find(next.begin() + 1, next.end(), 0); place != next.end()) *place = next[0];
    next[0] = keys[0];
  }
  for (const u16 key : keys) {
    if (std::find(next.begin(), next.end(), key) != next.end()) continue;
    if (const auto place = std::find(next.begin(), next.end(), 0); place != next.end()) *place = key;
  }
  for (u32 block = 0; block * keys_per_block < next.size(); ++block) {
    std::array<u8, 64> data{};
    bool differs = false;
    for (u32 i = 0; i < keys_per_block && block * keys_per_block + i < next.size(); ++i) {
      const u32 at = block * keys_per_block + i;
      wire::set(data, Field{static_cast<u16>(i * 16), 16}, next[at]);
      differs = differs || next[at] != table[at];
    }
    if (!differs) continue;
    requests_.set(subnet.path(end), SmpAttribute::pkey_table, block, data,
                  [this](const wire::Mad* mad) { failures_ += mad == nullptr; });
  }
  table = next;
}

void PortSetup::activate(Subnet& subnet) {
  for_each_port(subnet, [&](End end) {
    const Port& port = subnet.port(end);
    if (port.state() != LinkState::armed) return;
    Info info = port.info;
    for (const Field field : left_alone) wire::set(info, field, 0);
    wire::set(info, port_info::port_state, static_cast<u8>(LinkState::active));
    set(subnet, end, info);
  });
}

u32 count_inactive(const Subnet& subnet) {
  u32 count = 0;
  for_each_port(subnet, [&](End end) {
    const Port& port = subnet.port(end);
    count += port.linked() ? port.state() != LinkState::active : on_its_way(port);
  });
  return count;
}

}  // namespace softib::sm
