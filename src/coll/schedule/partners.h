// Who talks to whom: trees, and groups that are no power of two.
#pragma once

#include <optional>
#include <vector>

#include "base/types.h"

namespace softib::coll {

[[nodiscard]] u32 log2_below(u32 number);  // of the largest power of two that is not above `number`
[[nodiscard]] u32 log2_above(u32 number);  // of the smallest power of two that is not below it

// A group folded to a power of two, the core. The first members go in pairs: the even one of a pair hands its part to
// the odd one, who acts for both, and gets the result from it. Core members keep the order of indices, so each stands
// for one or two neighbours.
class Fold {
 public:
  Fold(u32 size, u32 index);

  [[nodiscard]] u32 core_size() const { return core_size_; }
  // My place in the core; none: my partner acts for me.
  [[nodiscard]] std::optional<u32> place() const { return place_; }
  // The other one of my pair.
  [[nodiscard]] std::optional<u32> partner() const { return partner_; }
  // The member at a place of the core.
  [[nodiscard]] u32 member(u32 place) const { return place < pairs_ ? 2 * place + 1 : place + pairs_; }
  // It stands for members first(place) up to, not including, first(place + 1).
  [[nodiscard]] u32 first(u32 place) const { return place < pairs_ ? 2 * place : place + pairs_; }

 private:
  u32 core_size_;
  u32 pairs_;
  std::optional<u32> place_;
  std::optional<u32> partner_;
};

// One halving of the blocks of a power of two of members: I keep one half of what I had, and `peer` the other.
struct Halving {
  u32 peer = 0;
  u32 keep_first = 0, keep_last = 0;
  u32 give_first = 0, give_last = 0;
};

enum class Order : u8 { near_first, far_first };

// Down to one block. Far partners first: that is block `place`. Near partners first: the long messages go to
// neighbours, and the block is another one.
[[nodiscard]] std::vector<Halving> halvings(u32 size, u32 place, Order order);

struct TreeNode {
  std::optional<u32> parent;
  std::vector<u32> children;  // the one with the most below it first
  u32 subtree = 1;            // binomial trees: members in it, which are place, place + 1, ...
};

// Rooted at 0: member v hangs below v without its lowest bit.
[[nodiscard]] TreeNode binomial_node(u32 size, u32 place);

// Two binary trees such that who has children in one is a leaf in the other (but for one member where the size is odd).
// With half of the data on each, all members send and receive about as much.
[[nodiscard]] TreeNode double_tree_node(u32 size, u32 place, bool second);

}  // namespace softib::coll
