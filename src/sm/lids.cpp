#include "sm/lids.h"

#include <algorithm>
#include <bit>

namespace softib::sm {

// Only an enhanced port 0 of a switch may have several LIDs. What a port comes with is not cut down: its addresses may
// be in use.
Lids::Span Lids::span_of(const Subnet& subnet, End end, u8 lmc) {
  const Node& node = subnet.node(end);
  const bool one = node.is_switch() && wire::get(node.switch_info, switch_info::enhanced_port_0) == 0;
  const auto own = static_cast<u8>(subnet.port(end).get(port_info::lmc));
  return {0, one ? 1U : 1U << std::max(own, lmc)};
}

bool Lids::free(const std::vector<bool>& taken, Span span) {
  if (span.first == 0 || span.first % span.count != 0 || span.first + span.count - 1 > last_unicast_lid) return false;
  for (u32 lid = span.first; lid < span.first + span.count; ++lid)
    if (taken[lid]) return false;
  return true;
}

void Lids::take(std::vector<bool>& taken, Span span) { std::fill_n(taken.begin() + span.first, span.count, true); }

void Lids::assign(Subnet& subnet, u8 lmc) {
  std::vector<bool> taken(last_unicast_lid + 1U, false);
  const auto settle = [&](End end, u32 lid) {
    Span span = span_of(subnet, end, lmc);
    span.first = lid;
    if (subnet.port(end).lid != 0 || !free(taken, span)) return;
    take(taken, span);
    subnet.port(end).lid = static_cast<u16>(lid);
    subnet.port(end).lmc = static_cast<u8>(std::countr_zero(span.count));
  };
  for (const End end : subnet.ends) subnet.port(end).lid = 0;
  for (const End end : subnet.ends)
    if (const auto at = given_.find(subnet.port(end).guid); at != given_.end()) settle(end, at->second);
  // LIDs of ports that are away are kept for them as long as there are others.
  std::vector<bool> reserved = taken;
  for (const auto& [guid, lid] : given_) reserved[lid] = true;
  for (const End end : subnet.ends) settle(end, static_cast<u32>(subnet.port(end).get(port_info::lid)));
  for (u32 i = 0; i < taken.size(); ++i) reserved[i] = reserved[i] || taken[i];

  u32 next = 1;
  for (const End end : subnet.ends) {
    Port& port = subnet.port(end);
    Span span = span_of(subnet, end, lmc);
    span.first = (next + span.count - 1) / span.count * span.count;
    while (port.lid == 0 && span.first + span.count - 1 <= last_unicast_lid && !free(reserved, span))
      span.first += span.count;
    if (port.lid != 0) continue;
    settle(end, span.first);
    if (port.lid == 0) continue;
    take(reserved, span);
    next = span.count == 1 ? span.first + 1 : next;
  }

  remember(subnet);
}

void Lids::remember(Subnet& subnet) {
  subnet.by_lid.assign(last_unicast_lid + 1U, nowhere);
  for (u32 place = 0; place < subnet.ends.size(); ++place) {
    const Port& port = subnet.port(subnet.ends[place]);
    if (port.lid == 0) continue;
    given_[port.guid] = port.lid;
    std::fill_n(subnet.by_lid.begin() + port.lid, 1U << port.lmc, place);
  }
}

}  // namespace softib::sm
