#include "daemon/port_record.h"

#include <algorithm>

namespace softib::daemon {

std::span<const u16> pkeys_of(const ipc::Port& port) {
  return std::span(port.pkeys).first(std::min<size_t>(port.pkey_count, ipc::max_pkeys_per_port));
}

std::span<const ipc::Gid> gids_of(const ipc::Port& port) {
  return std::span(port.gids).first(std::min<size_t>(port.gid_count, ipc::max_gids_per_port));
}

fabric::PortStatus read_status(const ipc::Port& port) {
  fabric::PortStatus status;
  status.state = port.state.load(std::memory_order_relaxed);
  status.phys_state = static_cast<fabric::PhysState>(port.phys_state);
  status.lid = port.lid;
  status.sm_lid = port.sm_lid;
  status.lmc = port.lmc;
  status.sm_sl = port.sm_sl;
  status.capabilities = port.port_cap_flags;
  status.speed = static_cast<fabric::Speed>(port.active_speed);
  status.width = static_cast<fabric::Width>(port.active_width);
  status.mtu = static_cast<fabric::Mtu>(port.active_mtu);
  const auto pkeys = pkeys_of(port);
  status.pkeys.assign(pkeys.begin(), pkeys.end());
  const auto gids = gids_of(port);
  for (size_t i = 0; i < gids.size(); ++i) status.gids.push_back({gids[i], port.gid_types[i]});
  return status;
}

void write_status(ipc::Port& port, const fabric::PortStatus& status) {
  port.phys_state = static_cast<u8>(status.phys_state);
  port.lid = status.lid;
  port.sm_lid = status.sm_lid;
  port.lmc = status.lmc;
  port.sm_sl = status.sm_sl;
  port.port_cap_flags = status.capabilities;
  port.active_speed = static_cast<u32>(status.speed);
  port.active_width = static_cast<u8>(status.width);
  port.active_mtu = static_cast<u8>(status.mtu);
  port.pkey_count = static_cast<u16>(std::min<size_t>(status.pkeys.size(), ipc::max_pkeys_per_port));
  std::copy_n(status.pkeys.begin(), port.pkey_count, port.pkeys);
  port.gid_count = static_cast<u16>(std::min<size_t>(status.gids.size(), ipc::max_gids_per_port));
  for (u32 i = 0; i < port.gid_count; ++i) {
    port.gids[i] = status.gids[i].gid;
    port.gid_types[i] = status.gids[i].type;
  }
  port.state.store(status.state, std::memory_order_release);
}

}  // namespace softib::daemon
