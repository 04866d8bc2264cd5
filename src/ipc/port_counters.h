// The performance counters of a port as sysfs names them, below ports/N/counters.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/types.h"

namespace softib::ipc {

enum class PortCounter : u32 {
  symbol_error,
  link_error_recovery,
  link_downed,
  port_rcv_errors,
  port_rcv_remote_physical_errors,
  port_rcv_switch_relay_errors,
  port_xmit_discards,
  port_xmit_constraint_errors,
  port_rcv_constraint_errors,
  local_link_integrity_errors,
  excessive_buffer_overrun_errors,
  vl15_dropped,
  port_xmit_data,
  port_rcv_data,
  port_xmit_packets,
  port_rcv_packets,
  port_xmit_wait,
  unicast_xmit_packets,
  unicast_rcv_packets,
  multicast_xmit_packets,
  multicast_rcv_packets,
  end
};

inline constexpr std::array<std::string_view, static_cast<u32>(PortCounter::end)> port_counter_names{
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_packets",
    "port_rcv_packets",
    "port_xmit_wait",
    "unicast_xmit_packets",
    "unicast_rcv_packets",
    "multicast_xmit_packets",
    "multicast_rcv_packets",
};

// Of what goes wrong, and not of traffic.
[[nodiscard]] constexpr bool counts_errors(PortCounter counter) {
  return counter <= PortCounter::vl15_dropped || counter == PortCounter::port_xmit_wait;
}

[[nodiscard]] constexpr std::optional<PortCounter> port_counter_named(std::string_view name) {
  for (u32 i = 0; i < port_counter_names.size(); ++i)
    if (port_counter_names[i] == name) return static_cast<PortCounter>(i);
  return std::nullopt;
}

}  // namespace softib::ipc
