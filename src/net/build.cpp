// From a fabric's description to nodes, ports and cables.
#include <algorithm>

#include "fabric/sysfs.h"
#include "net/links.h"
#include "net/world.h"
#include "wire/smp_attributes.h"

namespace softib::net {

namespace {

namespace cap = wire::port_cap;

constexpr u32 pkey_capacity = ipc::max_pkeys_per_port;
constexpr u32 guid_capacity = ipc::max_gids_per_port;
constexpr u16 default_pkey = 0xffff;
constexpr u8 default_vls = 4;  // VL 0 to 7
constexpr u32 switch_revision = 0xa0;
constexpr u32 any_port = 0xff;
constexpr u8 default_threshold = 8;  // of errors, before they count as trouble

struct Ability {
  fabric::Speed speed;
  fabric::Width width;
  fabric::Mtu mtu;
};

u32 capabilities_of(const Ability& ability, bool is_switch) {
  u32 mask = cap::trap | cap::sl_mapping | cap::led_info | cap::system_guid | cap::capability_notice |
             cap::other_local_changes;
  if (ability.speed > fabric::Speed::fdr10) mask |= cap::extended_speeds;
  if (ability.speed >= fabric::Speed::hdr) mask |= cap::capability_mask2;
  if (!is_switch) mask |= cap::auto_migration | cap::connection_management | cap::client_reregistration;
  return mask;
}

u16 capabilities2_of(const Ability& ability) {
  u16 mask = 0;
  if (ability.speed >= fabric::Speed::hdr) mask |= wire::port_cap2::link_width_2x | wire::port_cap2::link_speed_hdr;
  if (ability.speed >= fabric::Speed::ndr) mask |= wire::port_cap2::link_speed_ndr;
  return mask;
}

// 2x came with HDR; a 12x port has no 8x.
u8 widths_of(const Ability& ability) {
  constexpr auto x2 = static_cast<u8>(fabric::Width::x2);
  constexpr auto x8 = static_cast<u8>(fabric::Width::x8);
  u8 mask = widths_up_to(ability.width);
  if (ability.speed < fabric::Speed::hdr && ability.width != fabric::Width::x2) mask &= static_cast<u8>(~x2);
  if (ability.width == fabric::Width::x12) mask &= static_cast<u8>(~x8);
  return mask;
}

void equip(Port& port, const Ability& ability, bool is_switch) {
  port.speeds_supported = speeds_up_to(ability.speed);
  port.widths_supported = widths_of(ability);
  port.mtu_cap = static_cast<u8>(ability.mtu);
  port.capabilities = capabilities_of(ability, is_switch);
  port.capabilities2 = capabilities2_of(ability);
  port.first_pkeys.assign(1, default_pkey);
}

Node& add_node(World& world, NodeKind kind, u32 ports) {
  Node& node = world.nodes.emplace_back();
  node.kind = kind;
  node.ports = static_cast<u8>(ports);
  node.first = static_cast<u32>(world.ports.size());
  node.partition_cap = pkey_capacity;
  for (u32 number = 0; number <= ports; ++number)
    world.ports.emplace_back().ref = {static_cast<u32>(world.nodes.size() - 1), static_cast<u8>(number)};
  return node;
}

void add_switch(World& world, const fabric::Switch& from) {
  Node& node = add_node(world, NodeKind::sw, from.ports);
  node.guid = from.node_guid;
  node.system_guid = from.system_guid ? from.system_guid : from.node_guid;
  const fabric::Make make = fabric::make_of(from);
  node.vendor = make.vendor_id;
  node.device = static_cast<u16>(make.device_id);
  node.revision = switch_revision;
  node.description = fabric::node_description(from);
  node.sw = std::make_unique<Switching>();
  node.sw->mask_words = from.ports / wire::multicast_forwarding::ports_per_position + 1;
  for (u32 number = 0; number <= from.ports; ++number)
    equip(world.ports[node.first + number], {from.speed, from.width, from.mtu}, true);
  Port& management = world.ports[node.first];
  management.guid = from.port_guid ? from.port_guid : from.node_guid;
  management.guids.assign(1, management.guid);
  node.sw->enhanced = from.enhanced_port0;
  boot(world, node);
}

void add_hca(World& world, const fabric::Host& host, const fabric::Hca& from) {
  Node& node = add_node(world, NodeKind::ca, static_cast<u32>(from.ports.size()));
  node.guid = from.node_guid;
  node.system_guid = from.system_guid;
  node.description = fabric::node_description(host, from);
  const fabric::Make make = fabric::make_of(from);
  node.vendor = make.vendor_id;
  node.device = static_cast<u16>(make.device_id);
  if (const fabric::Model* model = fabric::find_model(from.model)) node.revision = model->hardware_version;
  for (size_t i = 0; i < from.ports.size(); ++i) {
    Port& port = world.ports[node.first + i + 1];
    equip(port, {from.ports[i].speed, from.ports[i].width, from.ports[i].mtu}, false);
    if (!from.ports[i].pkeys.empty()) port.first_pkeys = from.ports[i].pkeys;
    port.guid = from.ports[i].guid;
    port.guids.assign(guid_capacity, 0);
    port.guids[0] = port.guid;
  }
  boot(world, node);
}

u32 end_of(const World& world, const fabric::CableEnd& end) {
  const u32 node = end.kind == fabric::EndKind::sw ? end.node : world.first_hca[end.node] + end.hca;
  return world.nodes[node].first + end.port;
}

void add_cable(World& world, const fabric::Cable& from) {
  Cable& cable = world.cables.emplace_back();
  cable.ends[0] = end_of(world, from.a);
  cable.ends[1] = end_of(world, from.b);
  if (from.speed) cable.speeds = speeds_up_to(*from.speed);
  if (from.width) cable.widths = widths_up_to(*from.width);
  for (u32 i = 0; i < 2; ++i) {
    Port& port = world.ports[cable.ends[i]];
    port.peer = cable.ends[1 - i];
    port.cable = static_cast<u32>(world.cables.size() - 1);
  }
}

void boot_port(Port& port, bool is_port_0) {
  port.state = is_port_0 ? ipc::PortState::active : ipc::PortState::down;
  port.physical = is_port_0 ? PhysicalState::up : PhysicalState::polling;
  port.lid = port.sm_lid = 0;
  port.lmc = port.sm_sl = 0;
  port.enforce_in = port.enforce_out = false;
  port.m_key = 0;
  port.m_key_protect = 0;
  port.m_key_lease = 0;
  port.lease_end = 0;
  port.lease_starts = false;
  port.gid_prefix = PortView{}.gid_prefix;
  port.speeds_enabled = port.speeds_supported;
  port.widths_enabled = port.widths_supported;
  port.speed = fabric::Speed::sdr;
  port.width = widest(port.widths_supported);
  port.neighbor_mtu = port.mtu_cap;
  port.operational_vls = default_vls;
  port.link_down_default = static_cast<u8>(PhysicalState::polling);
  port.capabilities &= ~cap::is_sm;
  port.settings = {};
  wire::set(port.settings, wire::port_info::local_phy_errors, default_threshold);
  wire::set(port.settings, wire::port_info::overrun_errors, default_threshold);
  port.pkeys = port.first_pkeys;
  port.pkeys.resize(pkey_capacity);
  if (port.guids.size() > 1) std::fill(port.guids.begin() + 1, port.guids.end(), 0);
  for (u32 sl = 0; sl < wire::sl_to_vl::levels; ++sl) wire::set(port.sl_to_vl, wire::sl_to_vl::vl(sl), sl % 8);
  port.arbitration = {};
  for (u32 vl = 0; vl < arbitration_entries; ++vl) {
    wire::set(port.arbitration, wire::vl_arbitration::vl(vl), vl);
    wire::set(port.arbitration, wire::vl_arbitration::weight(vl), 1);
  }
}

}  // namespace

void boot(World& world, Node& node) {
  node.on_since = world.now;
  if (node.sw) {
    Switching fresh;
    fresh.mask_words = node.sw->mask_words;
    fresh.enhanced = node.sw->enhanced;
    fresh.default_port = fresh.default_multicast_primary = fresh.default_multicast_other = any_port;
    *node.sw = std::move(fresh);
  }
  for (u32 number = node.sw ? 0 : 1; number <= node.ports; ++number)
    boot_port(world.ports[node.first + number], number == 0);
  if (node.sw && node.sw->enhanced) world.ports[node.first].state = ipc::PortState::init;
}

void build(World& world, const fabric::Fabric& fabric) {
  for (const fabric::Switch& from : fabric.switches) add_switch(world, from);
  world.switch_count = static_cast<u32>(world.nodes.size());
  for (const fabric::Host& host : fabric.hosts) {
    world.first_hca.push_back(static_cast<u32>(world.nodes.size()));
    for (const fabric::Hca& hca : host.hcas) add_hca(world, host, hca);
  }
  world.cables.reserve(fabric.cables.size());
  for (const fabric::Cable& cable : fabric.cables) add_cable(world, cable);
  for (Cable& cable : world.cables) train(world, cable);
}

}  // namespace softib::net
