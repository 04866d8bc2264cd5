// Linear and multicast forwarding tables. They grow as they are written: most LIDs are never used.
#include <algorithm>

#include "net/sma/sma.h"

namespace softib::net {

namespace {

using wire::MadStatus;

constexpr u32 linear_blocks = wire::first_multicast_lid / wire::linear_forwarding::lids_per_block;
constexpr u32 multicast_blocks = 4096 / wire::multicast_forwarding::lids_per_block;

bool write_linear(Switching& sw, size_t first, std::span<const u8> data) {
  constexpr u8 no_port = wire::linear_forwarding::no_port;
  if (sw.linear.size() < first + data.size()) {
    if (std::all_of(data.begin(), data.end(), [](u8 port) { return port == no_port; })) return false;
    sw.linear.resize(first + data.size(), no_port);
  }
  const auto at = sw.linear.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::equal(data.begin(), data.end(), at)) return false;
  std::copy(data.begin(), data.end(), at);
  return true;
}

// One 16-port column of 32 multicast LIDs.
bool write_masks(Switching& sw, u32 block, u32 position, std::span<const u8> data) {
  constexpr u32 lids = wire::multicast_forwarding::lids_per_block;
  const size_t needed = size_t{block + 1} * lids * sw.mask_words;
  if (sw.multicast.size() < needed) sw.multicast.resize(needed);
  bool changed = false;
  for (u32 i = 0; i < lids; ++i) {
    const auto mask = static_cast<u16>(wire::get(data, wire::multicast_forwarding::mask(i)));
    u16& word = sw.multicast[(size_t{block} * lids + i) * sw.mask_words + position];
    changed |= word != mask;
    word = mask;
  }
  return changed;
}

}  // namespace

MadStatus sma_linear_forwarding(const SmaCall& call) {
  if (!call.node.sw) return MadStatus::bad_attribute;
  if (call.modifier >= linear_blocks) return MadStatus::bad_value;
  Switching& sw = *call.node.sw;
  const size_t first = size_t{call.modifier} * wire::linear_forwarding::lids_per_block;
  if (call.set && write_linear(sw, first, call.data)) call.world.observer.routes_changed(call.port.ref.node);
  for (size_t i = 0; i < call.data.size(); ++i)
    call.data[i] = first + i < sw.linear.size() ? sw.linear[first + i] : wire::linear_forwarding::no_port;
  return MadStatus::ok;
}

MadStatus sma_multicast_forwarding(const SmaCall& call) {
  if (!call.node.sw) return MadStatus::bad_attribute;
  constexpr u32 position_shift = 28;
  constexpr u32 block_mask = 0x1ff;
  Switching& sw = *call.node.sw;
  const u32 position = call.modifier >> position_shift;
  const u32 block = call.modifier & ~(0xfU << position_shift);
  if (block > block_mask || block >= multicast_blocks || position >= sw.mask_words) return MadStatus::bad_value;
  if (call.set && write_masks(sw, block, position, call.data)) call.world.observer.routes_changed(call.port.ref.node);
  call.clear();
  for (u32 i = 0; i < wire::multicast_forwarding::lids_per_block; ++i) {
    const size_t word = (size_t{block} * wire::multicast_forwarding::lids_per_block + i) * sw.mask_words + position;
    if (word < sw.multicast.size()) wire::set(call.data, wire::multicast_forwarding::mask(i), sw.multicast[word]);
  }
  return MadStatus::ok;
}

}  // namespace softib::net
