// P_KeyTable, SLtoVLMappingTable, VLArbitrationTable: small tables of a port.
#include <algorithm>

#include "net/sma/sma.h"

namespace softib::net {

namespace {

using wire::MadStatus;

bool write_pkeys(Port& port, u32 first, std::span<const u8> data) {
  bool changed = false;
  for (u32 i = 0; i < wire::pkey_table::keys_per_block && first + i < port.pkeys.size(); ++i) {
    const auto key = static_cast<u16>(wire::get(data, wire::pkey_table::key(i)));
    changed |= port.pkeys[first + i] != key;
    port.pkeys[first + i] = key;
  }
  return changed;
}

// VLs 0 to 7 are there; 15 drops.
bool vls_exist(std::span<const u8> map) {
  constexpr u8 vls = 8;
  constexpr u8 dropping = 15;
  for (u32 sl = 0; sl < wire::sl_to_vl::levels; ++sl)
    if (const u64 vl = wire::get(map, wire::sl_to_vl::vl(sl)); vl >= vls && vl != dropping) return false;
  return true;
}

// Where the 8 bytes for packets from one port to another lie.
std::span<u8> sl_map(const SmaCall& call, u32 in, u32 out) {
  if (!call.node.sw || out == 0) return call.world.managed(call.port).sl_to_vl;
  std::vector<u8>& all = call.node.sw->sl_to_vl;
  const size_t ports = call.node.ports + size_t{1};
  if (all.empty()) {
    const Port& model = call.world.managed(call.port);
    for (size_t i = 0; i < ports * ports; ++i) all.insert(all.end(), model.sl_to_vl.begin(), model.sl_to_vl.end());
  }
  return std::span(all).subspan((in * ports + out) * 8, 8);
}

// The part of a port's arbitration table that a block names: 1 and 2 low, 3 and 4 high priority.
std::span<u8> arbitration(Port& port, u32 block) {
  constexpr size_t half = arbitration_entries * 2;
  if (block == 1) return std::span(port.arbitration).first(half);
  if (block == 3) return std::span(port.arbitration).subspan(half, half);
  return {};
}

}  // namespace

MadStatus sma_pkey_table(const SmaCall& call) {
  const u32 number = call.modifier >> 16;
  const u32 first = (call.modifier & 0xffff) * wire::pkey_table::keys_per_block;
  Port* port = call.node.sw ? port_of(call, number) : &call.port;
  if (!port || first >= port->pkeys.size()) return MadStatus::bad_value;
  if (call.set && write_pkeys(*port, first, call.data)) {
    call.world.observer.port_changed(port->ref);
    if (port->enforce_in || port->enforce_out) call.world.observer.routes_changed(port->ref.node);
  }
  call.clear();
  for (u32 i = 0; i < wire::pkey_table::keys_per_block && first + i < port->pkeys.size(); ++i)
    wire::set(call.data, wire::pkey_table::key(i), port->pkeys[first + i]);
  return MadStatus::ok;
}

MadStatus sma_sl_to_vl(const SmaCall& call) {
  const u32 in = call.modifier >> 8 & 0xff;
  const u32 out = call.modifier & 0xff;
  if (call.node.sw && (in > call.node.ports || out > call.node.ports)) return MadStatus::bad_value;
  if (call.set && !vls_exist(call.data)) return MadStatus::bad_value;
  const std::span<u8> map = sl_map(call, in, out);
  if (call.set && !std::equal(map.begin(), map.end(), call.data.begin())) {
    std::copy_n(call.data.begin(), map.size(), map.begin());
    call.world.observer.routes_changed(call.port.ref.node);
  }
  call.clear();
  std::copy(map.begin(), map.end(), call.data.begin());
  return MadStatus::ok;
}

MadStatus sma_vl_arbitration(const SmaCall& call) {
  Port* port = call.node.sw ? port_of(call, call.modifier & 0xffff) : &call.port;
  if (!port) return MadStatus::bad_value;
  const std::span<u8> table = arbitration(*port, call.modifier >> 16);
  if (table.empty()) return MadStatus::bad_value;
  if (call.set) std::copy_n(call.data.begin(), table.size(), table.begin());
  call.clear();
  std::copy(table.begin(), table.end(), call.data.begin());
  return MadStatus::ok;
}

}  // namespace softib::net
