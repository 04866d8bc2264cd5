#include "net/pma/counter_rows.h"

namespace softib::net {

namespace {

using wire::PerfAttribute;
namespace plain = wire::port_counters;
namespace extended = wire::port_counters_extended;
namespace discards = wire::xmit_discard_details;
namespace errors = wire::receive_error_details;

constexpr CounterRow plain_rows[] = {
    {plain::symbol_error, index_of(Cause::symbol_error), 0},
    {plain::link_error_recovery, index_of(Cause::link_recovery), 1},
    {plain::link_downed, index_of(Cause::link_downed), 2},
    {plain::receive_errors, index_of(Cause::receive_error), 3},
    {plain::receive_remote_physical_errors, index_of(Cause::remote_physical), 4},
    {plain::receive_switch_relay_errors, index_of(Cause::switch_relay), 5},
    {plain::xmit_discards, index_of(Cause::xmit_discard), 6},
    {plain::xmit_constraint_errors, index_of(Cause::xmit_constraint), 7},
    {plain::receive_constraint_errors, index_of(Cause::receive_constraint), 8},
    {plain::local_link_integrity_errors, index_of(Cause::local_integrity), 9},
    {plain::excessive_buffer_overrun_errors, index_of(Cause::buffer_overrun), 10},
    {plain::vl15_dropped, index_of(Cause::vl15_dropped), 11},
    {plain::xmit_data, index_of(Count::xmit_words), 12},
    {plain::receive_data, index_of(Count::receive_words), 13},
    {plain::xmit_packets, index_of(Count::xmit_packets), 14},
    {plain::receive_packets, index_of(Count::receive_packets), 15},
    {plain::xmit_wait, index_of(Cause::xmit_wait), second_select},
};

constexpr CounterRow extended_rows[] = {
    {extended::xmit_data, index_of(Count::xmit_words), 0},
    {extended::receive_data, index_of(Count::receive_words), 1},
    {extended::xmit_packets, index_of(Count::xmit_packets), 2},
    {extended::receive_packets, index_of(Count::receive_packets), 3},
    {extended::unicast_xmit_packets, index_of(Count::unicast_xmit), 4},
    {extended::unicast_receive_packets, index_of(Count::unicast_receive), 5},
    {extended::multicast_xmit_packets, index_of(Count::multicast_xmit), 6},
    {extended::multicast_receive_packets, index_of(Count::multicast_receive), 7},
    {extended::symbol_error, index_of(Cause::symbol_error), second_select},
    {extended::link_error_recovery, index_of(Cause::link_recovery), second_select + 1},
    {extended::link_downed, index_of(Cause::link_downed), second_select + 2},
    {extended::receive_errors, index_of(Cause::receive_error), second_select + 3},
    {extended::receive_remote_physical_errors, index_of(Cause::remote_physical), second_select + 4},
    {extended::receive_switch_relay_errors, index_of(Cause::switch_relay), second_select + 5},
    {extended::xmit_discards, index_of(Cause::xmit_discard), second_select + 6},
    {extended::xmit_constraint_errors, index_of(Cause::xmit_constraint), second_select + 7},
    {extended::receive_constraint_errors, index_of(Cause::receive_constraint), second_select + 8},
    {extended::local_link_integrity_errors, index_of(Cause::local_integrity), second_select + 9},
    {extended::excessive_buffer_overrun_errors, index_of(Cause::buffer_overrun), second_select + 10},
    {extended::vl15_dropped, index_of(Cause::vl15_dropped), second_select + 11},
    {extended::xmit_wait, index_of(Cause::xmit_wait), second_select + 12},
};

constexpr CounterRow discard_rows[] = {
    {discards::inactive, index_of(Cause::xmit_discard), 0},
};

constexpr CounterRow error_rows[] = {
    {errors::local_physical, index_of(Cause::receive_error), 0},
    {errors::buffer_overrun, index_of(Cause::buffer_overrun), 2},
    {errors::dlid_mapping, index_of(Cause::switch_relay), 3},
};

constexpr std::array<CounterRow, wire::data_sl::levels> sl_rows(Count first) {
  std::array<CounterRow, wire::data_sl::levels> rows{};
  for (u32 sl = 0; sl < rows.size(); ++sl)
    rows[sl] = {wire::data_sl::words(sl), index_of(first, sl), static_cast<u8>(sl)};
  return rows;
}
constexpr auto xmit_sl_rows = sl_rows(Count::xmit_sl);
constexpr auto receive_sl_rows = sl_rows(Count::receive_sl);

constexpr wire::Field no_second{0, 0};
constexpr CounterSet sets[] = {
    {PerfAttribute::port_counters, Family::plain, plain::select2, plain_rows},
    {PerfAttribute::port_counters_extended, Family::extended, extended::select2, extended_rows},
    {PerfAttribute::xmit_discard_details, Family::details, no_second, discard_rows},
    {PerfAttribute::receive_error_details, Family::details, no_second, error_rows},
    {PerfAttribute::xmit_data_sl, Family::details, no_second, xmit_sl_rows},
    {PerfAttribute::receive_data_sl, Family::details, no_second, receive_sl_rows},
};

}  // namespace

const CounterSet* counter_set(PerfAttribute attribute) {
  for (const CounterSet& set : sets)
    if (set.attribute == attribute) return &set;
  return nullptr;
}

u64 CounterSet::select_of(std::span<const u8> data) const {
  const u64 first = wire::get(data, wire::counters::select);
  return select2.width ? first | wire::get(data, select2) << second_select : first;
}

void CounterSet::write_select(std::span<u8> data, u64 select) const {
  wire::set(data, wire::counters::select, select);
  if (select2.width) wire::set(data, select2, select >> second_select);
}

}  // namespace softib::net
