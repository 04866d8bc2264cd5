#include "daemon/plane/port_counters.h"

#include "wire/perf_attributes.h"

namespace softib::daemon {

namespace {

using wire::PerfAttribute;
namespace plain = wire::port_counters;
namespace wide = wire::port_counters_extended;

struct Source {
  PerfAttribute attribute;
  wire::Field field;
};

constexpr Source narrow(wire::Field field) { return {PerfAttribute::port_counters, field}; }
constexpr Source extended(wire::Field field) { return {PerfAttribute::port_counters_extended, field}; }

// In the order of ipc::PortCounter.
constexpr std::array<Source, static_cast<u32>(ipc::PortCounter::end)> sources{
    narrow(plain::symbol_error),
    narrow(plain::link_error_recovery),
    narrow(plain::link_downed),
    narrow(plain::receive_errors),
    narrow(plain::receive_remote_physical_errors),
    narrow(plain::receive_switch_relay_errors),
    narrow(plain::xmit_discards),
    narrow(plain::xmit_constraint_errors),
    narrow(plain::receive_constraint_errors),
    narrow(plain::local_link_integrity_errors),
    narrow(plain::excessive_buffer_overrun_errors),
    narrow(plain::vl15_dropped),
    extended(wide::xmit_data),
    extended(wide::receive_data),
    extended(wide::xmit_packets),
    extended(wide::receive_packets),
    narrow(plain::xmit_wait),
    extended(wide::unicast_xmit_packets),
    extended(wide::unicast_receive_packets),
    extended(wide::multicast_xmit_packets),
    extended(wide::multicast_receive_packets),
};

}  // namespace

u64 counter_of_pma(net::Network& network, net::PortRef port, ipc::PortCounter counter) {
  const Source& source = sources[static_cast<u32>(counter)];
  wire::Packet query;
  wire::set(query.mad, wire::header::base_version, 1);
  wire::set(query.mad, wire::header::mgmt_class, static_cast<u8>(wire::MgmtClass::performance));
  wire::set(query.mad, wire::header::class_version, 1);
  wire::set(query.mad, wire::header::method, static_cast<u8>(wire::Method::get));
  wire::set(query.mad, wire::header::attribute, static_cast<u16>(source.attribute));
  const auto data = std::span(query.mad).subspan(wire::perf::data_at, wire::perf::data_size);
  wire::set(data, wire::counters::port_select, port.port);
  network.ask_pma(port, query);
  return wire::get(data, source.field);
}

}  // namespace softib::daemon
