// What is to be done, as one rank sees it: who takes part, and where each one's part lies.
#pragma once

#include <span>
#include <vector>

#include "coll/schedule/schedule.h"

namespace softib::coll {

// Elements of input or output.
struct Range {
  u64 offset = 0;
  u64 count = 0;

  [[nodiscard]] constexpr u64 end() const { return offset + count; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

using Blocks = std::vector<Range>;

[[nodiscard]] constexpr Span in(Range range) { return {Buffer::input, range.offset, range.count}; }
[[nodiscard]] constexpr Span out(Range range) { return {Buffer::output, range.offset, range.count}; }

// The ranks that take part in a phase; algorithms speak of members by their index here.
struct Group {
  u32 size = 1;
  u32 index = 0;           // mine
  std::vector<u32> ranks;  // by index; empty: each index is a rank

  [[nodiscard]] u32 rank_of(u32 member) const { return ranks.empty() ? member : ranks[member]; }
  // A member some places after me, around the end. `places` may be up to the size.
  [[nodiscard]] u32 after(u32 places) const { return (index + places) % size; }
  [[nodiscard]] u32 before(u32 places) const { return (index + size - places) % size; }
  // The same members counted from `first` on.
  [[nodiscard]] Group from(u32 first) const;
};

// Blocks by collective, where n is the number of ranks. Counts must agree between ranks, offsets need not.
//
//                    input                       output
//   all_reduce       1                           1 of the same count
//   broadcast        1, read at the root         1 of the same count
//   reduce           1                           1 of the same count, written at the root
//   all_gather       1, my part                  n, by rank
//   reduce_scatter   n, by rank                  1, my part
//   gather           1, my part                  n at the root; elsewhere not looked at
//   scatter          n at the root               1, my part
//   all_to_all       n, by receiver              n, by sender
//   barrier          none                        none
struct Problem {
  Group group;
  u32 root = 0;  // an index of the group
  Blocks input;
  Blocks output;
  bool in_place = false;
  // The host of each member, by any number; empty: one host. For hierarchical algorithms.
  std::vector<u32> hosts;
  // Which slice of the whole this is: double_tree takes another tree in each second one.
  u32 lane = 0;
  // Where algorithms cut blocks, they cut at multiples of so many elements: a cache line's, say.
  u64 granule = 1;
};

// `whole` cut in as equal parts as multiples of `granule` allow; the last ones may be short or empty.
[[nodiscard]] Blocks even_blocks(Range whole, u32 parts, u64 granule = 1);
// One after the other from 0 on.
[[nodiscard]] Blocks blocks_of(std::span<const u64> counts);
[[nodiscard]] Blocks equal_blocks(u32 parts, u64 count);

// Is each block right behind the one before it?
[[nodiscard]] bool adjoin(const Blocks& blocks);
// Adjoining blocks [first, last) as one range.
[[nodiscard]] Range joined(const Blocks& blocks, u32 first, u32 last);
[[nodiscard]] Blocks moved_together(const Blocks& blocks);  // the same counts, from 0 on
[[nodiscard]] u64 total(const Blocks& blocks);

// Slice `lane` of `lanes`: that part of every block.
[[nodiscard]] Problem slice(const Problem& problem, u32 lane, u32 lanes);

}  // namespace softib::coll
