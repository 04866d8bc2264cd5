#include "net/pma/pma.h"

#include <algorithm>

#include "net/class_port_info.h"
#include "net/pma/counter_rows.h"

namespace softib::net {

namespace {

using wire::MadStatus;
using wire::PerfAttribute;

u64 most(wire::Field field) { return field.width == 64 ? ~u64{0} : (u64{1} << field.width) - 1; }

u64 sum(std::span<const Port> ports, Family family, size_t index, u64 limit) {
  u64 total = 0;
  for (const Port& port : ports) {
    const u64 value = std::min(shown(port, family, index), limit);
    total = value > limit - total ? limit : total + value;
  }
  return total;
}

MadStatus count_attribute(const PmaCall& call, const CounterSet& set) {
  const std::span<Port> ports = selected_ports(call);
  if (ports.empty()) return MadStatus::bad_value;
  const u64 select = set.select_of(call.data);
  const u64 port_select = wire::get(call.data, wire::counters::port_select);
  if (call.set)
    for (const CounterRow& row : set.rows)
      if (row.select < 64 && (select >> row.select & 1))
        for (Port& port : ports) reset(port, set.family, row.index, wire::get(call.data, row.field));
  call.clear();
  wire::set(call.data, wire::counters::port_select, port_select);
  set.write_select(call.data, select);
  for (const CounterRow& row : set.rows)
    wire::set(call.data, row.field, sum(ports, set.family, row.index, most(row.field)));
  return MadStatus::ok;
}

// Lanes with errors of their own are not told apart: nothing but zeros, which says that there were none.
MadStatus extended_speeds(const PmaCall& call) {
  const u64 port_select = wire::get(call.data, wire::counters::port_select);
  if (selected_ports(call).empty()) return MadStatus::bad_value;
  const u64 select = wire::get(call.data, wire::extended_speeds_counters::select);
  call.clear();
  wire::set(call.data, wire::counters::port_select, port_select);
  wire::set(call.data, wire::extended_speeds_counters::select, select);
  return MadStatus::ok;
}

}  // namespace

std::span<Port> selected_ports(const PmaCall& call) {
  const u64 select = wire::get(call.data, wire::counters::port_select);
  const std::span<Port> all = std::span(call.world.ports).subspan(call.node.first, call.node.ports + size_t{1});
  if (select == wire::all_ports) return all.subspan(1);
  if (select > call.node.ports || (select == 0 && !call.node.sw)) return {};
  return all.subspan(select, 1);
}

MadStatus pma_class_port_info(const PmaCall& call) {
  namespace info = wire::class_port_info;
  if (call.set) return MadStatus::bad_attribute;  // there are no traps of this class to set up
  call.clear();
  begin_class_port_info(call.data);
  wire::set(call.data, info::capability_mask,
            wire::perf_cap::all_port_select | wire::perf_cap::extended_width | wire::perf_cap::xmit_wait);
  wire::set(call.data, info::capability_mask2, wire::perf_cap::more_extended_counters);
  return MadStatus::ok;
}

MadStatus pma(World& world, Port& port, Packet& packet) {
  const PmaCall call{world, world.node(port), port, wire::method_of(packet.mad) == wire::Method::set,
                     std::span(packet.mad).subspan(wire::perf::data_at, wire::perf::data_size)};
  const auto attribute = static_cast<PerfAttribute>(wire::attribute_of(packet.mad));
  if (const CounterSet* set = counter_set(attribute)) return count_attribute(call, *set);
  switch (attribute) {
    case PerfAttribute::class_port_info:
      return pma_class_port_info(call);
    case PerfAttribute::samples_control:
      return pma_samples_control(call);
    case PerfAttribute::samples_result:
      return pma_samples_result(call);
    case PerfAttribute::extended_speeds_counters:
      return extended_speeds(call);
    default:
      return MadStatus::bad_attribute;
  }
}

}  // namespace softib::net
