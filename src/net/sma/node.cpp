// NodeDescription, NodeInfo, SwitchInfo, GUIDInfo, LedInfo, VendorDiag.
#include <algorithm>

#include "net/sma/sma.h"

namespace softib::net {

namespace {

using wire::MadStatus;
namespace switch_info = wire::switch_info;

constexpr u16 linear_cap = 0xc000;
constexpr u16 multicast_cap = 4096;
constexpr u16 enforcement_cap = 32;

void write_switch_info(const Switching& sw, std::span<u8> data) {
  wire::set(data, switch_info::linear_cap, linear_cap);
  wire::set(data, switch_info::multicast_cap, multicast_cap);
  wire::set(data, switch_info::linear_top, sw.linear_top);
  wire::set(data, switch_info::default_port, sw.default_port);
  wire::set(data, switch_info::default_multicast_primary, sw.default_multicast_primary);
  wire::set(data, switch_info::default_multicast_other, sw.default_multicast_other);
  wire::set(data, switch_info::life_time, sw.life_time);
  wire::set(data, switch_info::port_state_change, sw.state_change);
  wire::set(data, switch_info::partition_enforcement_cap, enforcement_cap);
  wire::set(data, switch_info::inbound_enforcement, 1);
  wire::set(data, switch_info::outbound_enforcement, 1);
  wire::set(data, switch_info::filter_raw_inbound, 1);
  wire::set(data, switch_info::filter_raw_outbound, 1);
  wire::set(data, switch_info::enhanced_port_0, sw.enhanced);
  wire::set(data, switch_info::multicast_top, sw.multicast_top);
}

MadStatus set_switch_info(const SmaCall& call) {
  Switching& sw = *call.node.sw;
  const auto top = static_cast<u16>(wire::get(call.data, switch_info::linear_top));
  if (top >= linear_cap) return MadStatus::bad_value;
  const bool moved = top != sw.linear_top;
  sw.linear_top = top;
  sw.default_port = static_cast<u8>(wire::get(call.data, switch_info::default_port));
  sw.default_multicast_primary = static_cast<u8>(wire::get(call.data, switch_info::default_multicast_primary));
  sw.default_multicast_other = static_cast<u8>(wire::get(call.data, switch_info::default_multicast_other));
  sw.life_time = static_cast<u8>(wire::get(call.data, switch_info::life_time));
  sw.multicast_top = static_cast<u16>(wire::get(call.data, switch_info::multicast_top));
  if (wire::get(call.data, switch_info::port_state_change)) sw.state_change = false;  // writing 0 is no change
  if (moved) call.world.observer.routes_changed(call.port.ref.node);
  return MadStatus::ok;
}

void set_guids(const SmaCall& call, Port& port, u32 first) {
  bool changed = false;
  for (u32 i = 0; i < wire::guid_info::guids_per_block; ++i) {
    if (first + i == 0 || first + i >= port.guids.size()) continue;  // the first is the port's own, for good
    const u64 guid = wire::get(call.data, wire::guid_info::guid(i));
    changed |= port.guids[first + i] != guid;
    port.guids[first + i] = guid;
  }
  if (changed) call.world.observer.port_changed(port.ref);
}

}  // namespace

MadStatus sma_node_description(const SmaCall& call) {
  call.clear();
  const size_t length = std::min(call.node.description.size(), call.data.size());
  std::copy_n(call.node.description.begin(), length, call.data.begin());
  return MadStatus::ok;
}

MadStatus sma_node_info(const SmaCall& call) {
  namespace node_info = wire::node_info;
  call.clear();
  wire::set(call.data, node_info::base_version, 1);
  wire::set(call.data, node_info::class_version, 1);
  wire::set(call.data, node_info::node_type, static_cast<u8>(call.node.kind));
  wire::set(call.data, node_info::num_ports, call.node.ports);
  wire::set(call.data, node_info::system_guid, call.node.system_guid);
  wire::set(call.data, node_info::node_guid, call.node.guid);
  wire::set(call.data, node_info::port_guid, call.world.managed(call.port).guid);
  wire::set(call.data, node_info::partition_cap, call.node.partition_cap);
  wire::set(call.data, node_info::device_id, call.node.device);
  wire::set(call.data, node_info::revision, call.node.revision);
  wire::set(call.data, node_info::local_port, call.port.ref.port);
  wire::set(call.data, node_info::vendor_id, call.node.vendor);
  return MadStatus::ok;
}

MadStatus sma_switch_info(const SmaCall& call) {
  if (!call.node.sw) return MadStatus::bad_attribute;
  if (call.set)
    if (const MadStatus status = set_switch_info(call); status != MadStatus::ok) return status;
  call.clear();
  write_switch_info(*call.node.sw, call.data);
  return MadStatus::ok;
}

MadStatus sma_guid_info(const SmaCall& call) {
  Port& port = call.world.managed(call.port);
  const u32 first = (call.modifier & 0xff) * wire::guid_info::guids_per_block;
  if (call.modifier > 0xff || first >= port.guids.size()) return MadStatus::bad_value;
  if (call.set) set_guids(call, port, first);
  call.clear();
  for (u32 i = 0; i < wire::guid_info::guids_per_block && first + i < port.guids.size(); ++i)
    wire::set(call.data, wire::guid_info::guid(i), port.guids[first + i]);
  return MadStatus::ok;
}

MadStatus sma_led_info(const SmaCall& call) {
  if (call.set) call.port.led = wire::get(call.data, wire::led_info::on) != 0;
  const bool on = call.port.led;
  call.clear();
  wire::set(call.data, wire::led_info::on, on);
  return MadStatus::ok;
}

// One empty record: nothing to report, and no next index.
MadStatus sma_vendor_diag(const SmaCall& call) {
  call.clear();
  return call.modifier == 0 ? MadStatus::ok : MadStatus::bad_value;
}

}  // namespace softib::net
