// MlnxExtPortInfo: the vendor's way to tell of FDR10, which PortInfo shows as QDR.
#include "net/links.h"
#include "net/sma/sma.h"
#include "net/speeds.h"
#include "wire/notice.h"

namespace softib::net {

namespace {

namespace ext_info = wire::mlnx_ext_port_info;

}  // namespace

wire::MadStatus sma_mlnx_ext_port_info(const SmaCall& call) {
  Port* port = port_of(call, call.modifier & 0xff);
  if (!port) return wire::MadStatus::bad_value;
  if (call.set && (wire::get(call.data, ext_info::state_change_enable) & 1)) {
    const bool on = wire::get(call.data, ext_info::link_speed_enabled) & 1;
    if (on && !(port->speeds_supported & fdr10_speed)) return wire::MadStatus::bad_value;
    const auto speeds = static_cast<u16>((port->speeds_enabled & ~fdr10_speed) | (on ? fdr10_speed : 0));
    if (speeds != port->speeds_enabled) call.world.traps.local_change(*port, wire::local_change::link_speed_enabled);
    port->speeds_enabled = speeds;
  }
  call.clear();
  wire::set(call.data, ext_info::link_speed_supported, (port->speeds_supported & fdr10_speed) != 0);
  wire::set(call.data, ext_info::link_speed_enabled, (port->speeds_enabled & fdr10_speed) != 0);
  wire::set(call.data, ext_info::link_speed_active,
            port->physical == PhysicalState::up && port->speed == fabric::Speed::fdr10);
  return wire::MadStatus::ok;
}

}  // namespace softib::net
