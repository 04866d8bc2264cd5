// PortInfo: what Get answers.
#include "net/sma/sma.h"
#include "net/speeds.h"

namespace softib::net {

namespace {

using wire::MadStatus;
namespace info = wire::port_info;

constexpr u8 subnet_response_time = 16;
constexpr u32 unknown_latency = 0xff'ffff;

constexpr u8 no_link_speed = 1;
constexpr u8 qdr_speed = 4;

// From FDR to NDR real ports say QDR here and the truth in LinkSpeedExtActive: tools from before FDR know no 0.
u8 plain_speed(const fabric::SpeedRow& active) { return active.link_speed_ext ? qdr_speed : active.link_speed; }

void write_addresses(const Port& managed, std::span<u8> data) {
  wire::set(data, info::m_key, managed.m_key);
  wire::set(data, info::gid_prefix, managed.gid_prefix);
  wire::set(data, info::lid, managed.lid);
  wire::set(data, info::sm_lid, managed.sm_lid);
  wire::set(data, info::sm_sl, managed.sm_sl);
  wire::set(data, info::lmc, managed.lmc);
  wire::set(data, info::m_key_lease_period, managed.m_key_lease);
  wire::set(data, info::m_key_protect_bits, managed.m_key_protect);
  wire::set(data, info::m_key_violations, managed.m_key_violations);
  wire::set(data, info::subnet_timeout, managed.subnet_timeout);
}

void write_link(const Port& port, std::span<u8> data) {
  const bool up = port.physical == PhysicalState::up;
  const fabric::SpeedRow& active = fabric::row_of(port.speed);
  wire::set(data, info::port_state, static_cast<u8>(port.state));
  wire::set(data, info::physical_state, static_cast<u8>(port.physical));
  wire::set(data, info::link_down_default_state, port.link_down_default);
  wire::set(data, info::link_width_supported, port.widths_supported);
  wire::set(data, info::link_width_enabled, port.widths_enabled);
  wire::set(data, info::link_width_active, static_cast<u8>(port.width));
  wire::set(data, info::link_speed_supported, plain_part(port.speeds_supported));
  wire::set(data, info::link_speed_enabled, plain_part(port.speeds_enabled));
  wire::set(data, info::link_speed_active, up ? plain_speed(active) : no_link_speed);
  const u8 extended = extended_part(port.speeds_enabled);
  const u8 supported = extended_part(port.speeds_supported);
  wire::set(data, info::link_speed_ext_supported, supported);
  wire::set(data, info::link_speed_ext_enabled, supported && !extended ? info::ext_speeds_off : extended);
  wire::set(data, info::link_speed_ext_active, up ? active.link_speed_ext : 0);
  wire::set(data, info::link_speed_ext2_supported, extended2_part(port.speeds_supported));
  wire::set(data, info::link_speed_ext2_enabled, extended2_part(port.speeds_enabled));
  wire::set(data, info::link_speed_ext2_active, up ? active.link_speed_ext2 : 0);
}

void write_lanes(const Port& port, std::span<u8> data) {
  wire::set(data, info::neighbor_mtu, port.neighbor_mtu);
  wire::set(data, info::mtu_cap, port.mtu_cap);
  wire::set(data, info::vl_cap, vl_cap);
  wire::set(data, info::operational_vls, port.operational_vls);
  wire::set(data, info::vl_arbitration_high_cap, arbitration_entries);
  wire::set(data, info::vl_arbitration_low_cap, arbitration_entries);
  wire::set(data, info::enforce_inbound, port.enforce_in);
  wire::set(data, info::enforce_outbound, port.enforce_out);
}

}  // namespace

void write_port_info(const World& world, const Port& port, std::span<u8> data) {
  const Port& managed = world.managed(port);
  std::copy(port.settings.begin(), port.settings.end(), data.begin());
  write_addresses(managed, data);
  write_link(port, data);
  write_lanes(port, data);
  // A subnet manager sits at port 0, not at all the others.
  const bool is_end_port = &managed == &port;
  wire::set(data, info::capability_mask,
            is_end_port ? managed.capabilities : managed.capabilities & ~wire::port_cap::is_sm);
  wire::set(data, info::capability_mask2, managed.capabilities2);
  wire::set(data, info::p_key_violations, port.p_key_violations);
  wire::set(data, info::q_key_violations, port.q_key_violations);
  wire::set(data, info::guid_cap, managed.guids.size());
  wire::set(data, info::response_time, subnet_response_time);
  wire::set(data, info::link_round_trip_latency, unknown_latency);
}

MadStatus sma_port_info(const SmaCall& call) {
  Port* port = port_of(call, call.modifier & ~info::sm_supports_ext_speeds);
  if (!port) return MadStatus::bad_value;
  call.world.observer.about_to_show(call.world.managed(*port).ref);
  const u64 reregister = wire::get(call.data, info::client_reregister);
  if (call.set)
    if (const MadStatus status = set_port_info(call, *port); status != MadStatus::ok) return status;
  write_port_info(call.world, *port, call.data);
  wire::set(call.data, info::local_port, call.port.ref.port);
  if (!call.key_fits && call.world.managed(*port).m_key_protect == 1) wire::set(call.data, info::m_key, 0);
  if (call.set) wire::set(call.data, info::client_reregister, reregister);
  return MadStatus::ok;
}

}  // namespace softib::net
