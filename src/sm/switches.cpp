#include "sm/switches.h"

#include <algorithm>

namespace softib::sm {

namespace {

constexpr u8 packet_life = 0x12;  // 1 s, as others have it

}  // namespace

void SwitchSetup::send(Subnet& subnet, const Tables& unicast, const MulticastTables& multicast) {
  failures_ = 0;
  u32 top = 0;
  for (const End end : subnet.ends)
    if (const Port& port = subnet.port(end); port.lid != 0) top = std::max(top, port.lid + (1U << port.lmc) - 1);
  for (u32 sw = 0; sw < subnet.switches.size(); ++sw) {
    forget_if_reset(subnet.nodes[subnet.switches[sw]], last_top_);
    send_unicast(subnet, sw, unicast);
    send_multicast(subnet, sw, multicast);
    send_info(subnet, sw, top, multicast.blocks() * mlids_in_block);
  }
  last_top_ = top;
  std::erase_if(sent_, [&](const auto& entry) {
    return std::none_of(subnet.switches.begin(), subnet.switches.end(),
                        [&](u32 number) { return subnet.nodes[number].guid == entry.first; });
  });
}

void SwitchSetup::send_multicast(const Subnet& subnet, const MulticastTables& multicast) {
  for (u32 sw = 0; sw < subnet.switches.size(); ++sw) send_multicast(subnet, sw, multicast);
}

// A switch that was off meanwhile holds nothing of what it was sent; its settings show it.
void SwitchSetup::forget_if_reset(const Node& node, u32 top) {
  const bool reset = wire::get(node.switch_info, switch_info::linear_top) != top;
  if (reset) sent_.erase(node.guid);
}

void SwitchSetup::send_unicast(const Subnet& subnet, u32 sw, const Tables& tables) {
  const Node& node = subnet.nodes[subnet.switches[sw]];
  const auto table = tables.of(sw);
  Sent& held = sent(node);
  held.unicast.resize(std::max<std::size_t>(held.unicast.size(), tables.width), no_port);
  held.unicast_known.resize(held.unicast.size() / lft_block, false);
  for (u32 block = 0; block < tables.width / lft_block; ++block) {
    const auto data = table.subspan(block * lft_block, lft_block);
    const auto old = held.unicast.begin() + block * lft_block;
    if (held.unicast_known[block] && std::equal(data.begin(), data.end(), old)) continue;
    std::copy(data.begin(), data.end(), old);
    held.unicast_known[block] = true;
    ++blocks_sent_;
    requests_.set(node.ports[0].path, SmpAttribute::linear_forwarding, block, data,
                  [this, guid = node.guid](const wire::Mad* mad) {
                    if (mad) return;
                    ++failures_;
                    sent_.erase(guid);
                  });
  }
}

void SwitchSetup::send_multicast(const Subnet& subnet, u32 sw, const MulticastTables& tables) {
  const Node& node = subnet.nodes[subnet.switches[sw]];
  if (wire::get(node.switch_info, switch_info::multicast_cap) == 0) return;
  Sent& held = sent(node);
  const u32 positions = tables.positions(sw);
  if (held.blocks < tables.blocks()) {
    held.multicast.resize(std::size_t{tables.blocks()} * positions * mlids_in_block);
    held.multicast_known.resize(std::size_t{tables.blocks()} * positions, false);
    held.blocks = tables.blocks();
  }
  for (u32 place = 0; place < tables.blocks() * positions; ++place) {
    const u32 block = place / positions, position = place % positions;
    const auto masks = tables.block(sw, block, position);
    const auto old = held.multicast.begin() + place * mlids_in_block;
    if (held.multicast_known[place] && std::equal(masks.begin(), masks.end(), old)) continue;
    std::copy(masks.begin(), masks.end(), old);
    held.multicast_known[place] = true;
    ++blocks_sent_;
    std::array<u8, 64> data{};
    for (u32 i = 0; i < mlids_in_block; ++i) wire::set(data, Field{static_cast<u16>(i * 16), 16}, masks[i]);
    requests_.set(node.ports[0].path, SmpAttribute::multicast_forwarding, position << 28 | block, data,
                  [this, guid = node.guid](const wire::Mad* mad) {
                    if (mad) return;
                    ++failures_;
                    sent_.erase(guid);
                  });
  }
}

void SwitchSetup::send_info(Subnet& subnet, u32 sw, u32 top, u32 mlids) {
  const u32 number = subnet.switches[sw];
  Node& node = subnet.nodes[number];
  auto info = node.switch_info;
  wire::set(info, switch_info::linear_top, top);
  wire::set(info, switch_info::life_time, packet_life);
  if (node.ports[0].get(port_info::capability_mask) & port_cap::multicast_fdb_top)
    wire::set(info, switch_info::multicast_top, wire::first_multicast_lid + mlids - 1);
  // Writing a 1 to PortStateChange clears it; a 0 that was read is written as it is.
  const bool changed = wire::get(info, switch_info::port_state_change) != 0;
  if (!changed && info == node.switch_info) return;
  requests_.set(node.ports[0].path, SmpAttribute::switch_info, 0, info, [this, &subnet, number](const wire::Mad* mad) {
    if (!mad) {
      ++failures_;
      return;
    }
    std::copy_n(data_of(*mad).begin(), switch_info_size, subnet.nodes[number].switch_info.begin());
  });
}

}  // namespace softib::sm
