#include "coll/schedule/problem.h"

#include <algorithm>

namespace softib::coll {

Group Group::from(u32 first) const {
  Group rotated{size, (index + size - first) % size, {}};
  for (u32 i = 0; i < size; ++i) rotated.ranks.push_back(rank_of((first + i) % size));
  return rotated;
}

Blocks even_blocks(Range whole, u32 parts, u64 granule) {
  const u64 grains = (whole.count + granule - 1) / granule;
  Blocks blocks;
  u64 at = 0;
  for (u32 i = 0; i < parts; ++i) {
    const u64 share = grains / parts + (i < grains % parts ? 1 : 0);
    const u64 count = std::min(share * granule, whole.count - at);
    blocks.push_back({whole.offset + at, count});
    at += count;
  }
  return blocks;
}

Blocks blocks_of(std::span<const u64> counts) {
  Blocks blocks;
  u64 at = 0;
  for (const u64 count : counts) {
    blocks.push_back({at, count});
    at += count;
  }
  return blocks;
}

Blocks equal_blocks(u32 parts, u64 count) {
  const std::vector<u64> counts(parts, count);
  return blocks_of(counts);
}

bool adjoin(const Blocks& blocks) {
  for (std::size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i].offset != blocks[i - 1].end()) return false;
  return true;
}

Range joined(const Blocks& blocks, u32 first, u32 last) {
  if (first == last) return {};
  return {blocks[first].offset, blocks[last - 1].end() - blocks[first].offset};
}

Blocks moved_together(const Blocks& blocks) {
  std::vector<u64> counts;
  for (const Range& block : blocks) counts.push_back(block.count);
  return blocks_of(counts);
}

u64 total(const Blocks& blocks) {
  u64 sum = 0;
  for (const Range& block : blocks) sum += block.count;
  return sum;
}

Problem slice(const Problem& problem, u32 lane, u32 lanes) {
  Problem part = problem;
  part.lane = lane;
  if (lanes == 1) return part;
  for (Blocks* blocks : {&part.input, &part.output})
    for (Range& block : *blocks) block = even_blocks(block, lanes, problem.granule)[lane];
  return part;
}

}  // namespace softib::coll
