// Multicast forwarding: one spanning tree for each MLID, over the switches that its members need.
#pragma once

#include <vector>

#include "sm/routing.h"

namespace softib::sm {

inline constexpr u32 mlids_in_block = 32;
inline constexpr u32 ports_in_mask = 16;

class MulticastTables {
 public:
  // Empty tables for `mlids` groups.
  MulticastTables(const Subnet& subnet, u32 mlids);

  // The tree of one group, in place of the one that was there. `senders` reach it and get nothing from it.
  void plant(const Subnet& subnet, const Graph& graph, u16 mlid, const std::vector<End>& members,
             const std::vector<End>& senders = {});

  [[nodiscard]] u32 blocks() const { return blocks_; }
  [[nodiscard]] u32 positions(u32 sw) const { return positions_[sw]; }
  // Masks of 32 MLIDs for 16 ports.
  [[nodiscard]] std::span<const u16> block(u32 sw, u32 block, u32 position) const;
  // All of a switch's, by block and position.
  [[nodiscard]] const std::vector<u16>& all(u32 sw) const { return masks_[sw]; }

 private:
  void clear(u32 index);
  void add(u32 sw, u32 index, u8 port);

  u32 blocks_;
  std::vector<u8> positions_;
  std::vector<std::vector<u16>> masks_;
};

}  // namespace softib::sm
