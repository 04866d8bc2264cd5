#include "sm/subnet.h"

#include <fmt/format.h>

#include <algorithm>

#include "fabric/rates.h"

namespace softib::sm {

std::string hex(u64 guid) { return fmt::format("{:#018x}", guid); }

std::string Node::name() const {
  const auto end = std::find(description.begin(), description.end(), u8{0});
  return fmt::format("\"{}\" ({})", std::string(description.begin(), end), hex(guid));
}

// Nothing else tells them; tools know them by that too.
bool Node::is_aggregation_node() const {
  constexpr std::string_view words = "Aggregation Node";
  const std::string_view text(reinterpret_cast<const char*>(description.data()), description.size());
  return kind == Kind::ca && text.find(words) != text.npos;
}

std::optional<End> Subnet::end_of_lid(u32 lid) const {
  if (lid >= by_lid.size() || by_lid[lid] == nowhere) return std::nullopt;
  return ends[by_lid[lid]];
}

std::optional<End> Subnet::end_of_guid(u64 port_guid) const {
  const auto at = by_port_guid.find(port_guid);
  if (at == by_port_guid.end()) return std::nullopt;
  return ends[at->second];
}

namespace {

fabric::Speed speed_of(const Port& port) {
  using fabric::Speed;
  if (port.get(port_info::link_speed_ext2_active) != 0) return Speed::xdr;
  const auto extended = port.get(port_info::link_speed_ext_active);
  const auto basic = port.get(port_info::link_speed_active);
  for (const fabric::SpeedRow& row : fabric::speed_table) {
    if (row.speed == Speed::fdr10) continue;  // PortInfo shows it as QDR
    if (extended != 0 ? row.link_speed_ext == extended : row.link_speed != 0 && row.link_speed == basic)
      return row.speed;
  }
  return Speed::sdr;
}

}  // namespace

void note_rates(Subnet& subnet) {
  for (Node& node : subnet.nodes)
    for (Port& port : node.ports) {
      if (!port.known) continue;
      const auto width = static_cast<fabric::Width>(port.get(port_info::link_width_active));
      // The table of codes ends before the fastest links do.
      port.rate = static_cast<u8>(fabric::path_rate(speed_of(port), width).value_or(fabric::PathRate::gbps_1200));
    }
}

}  // namespace softib::sm
