#include "coll/schedule/partners.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace softib::coll {

namespace {

// Numbers as an in-order binary tree: odd ones are leaves, and the lower zero bits of a number tell its height. 0,
// which would be above all, is the root with one child.
TreeNode in_order_node(u32 size, u32 place) {
  TreeNode node;
  if (place == 0) {
    if (size > 1) node.children.push_back(1U << log2_below(size - 1));
    return node;
  }
  const u32 bit = place & -place;
  const u32 above = (place ^ bit) | bit << 1;
  node.parent = above < size ? above : place ^ bit;
  if (bit > 1) node.children.push_back(place - bit / 2);
  // The upper child, or what is left of its subtree where numbers end.
  for (u32 step = bit / 2; step != 0; step /= 2)
    if (place + step < size) {
      node.children.push_back(place + step);
      break;
    }
  return node;
}

}  // namespace

u32 log2_below(u32 number) { return static_cast<u32>(std::bit_width(number)) - 1; }

u32 log2_above(u32 number) { return static_cast<u32>(std::bit_width(number - 1)); }

Fold::Fold(u32 size, u32 index) : core_size_(1U << log2_below(size)), pairs_(size - core_size_) {
  if (index >= 2 * pairs_) {
    place_ = index - pairs_;
    return;
  }
  partner_ = index ^ 1;
  if (index % 2 == 1) place_ = index / 2;
}

std::vector<Halving> halvings(u32 size, u32 place, Order order) {
  std::vector<Halving> rounds;
  u32 first = 0;
  u32 last = size;
  for (u32 half = size / 2; half != 0; half /= 2) {
    const u32 distance = order == Order::far_first ? half : size / 2 / half;
    const u32 middle = first + half;
    Halving round{place ^ distance, first, middle, middle, last};
    if ((place & distance) != 0) {
      std::swap(round.keep_first, round.give_first);
      std::swap(round.keep_last, round.give_last);
    }
    first = round.keep_first;
    last = round.keep_last;
    rounds.push_back(round);
  }
  return rounds;
}

TreeNode binomial_node(u32 size, u32 place) {
  TreeNode node;
  const u32 lowest = place == 0 ? 1U << log2_above(size) : place & -place;
  if (place != 0) node.parent = place - lowest;
  node.subtree = std::min(lowest, size - place);
  for (u32 bit = lowest / 2; bit != 0; bit /= 2)
    if (place + bit < size) node.children.push_back(place + bit);
  return node;
}

// The second tree is the first one mirrored if the size is even, else moved on by one place: both make odd places of
// even ones.
TreeNode double_tree_node(u32 size, u32 place, bool second) {
  if (!second) return in_order_node(size, place);
  const bool mirrored = size % 2 == 0;
  const auto back = [size, mirrored](u32 other) { return mirrored ? size - 1 - other : (other + 1) % size; };
  TreeNode node = in_order_node(size, mirrored ? size - 1 - place : (place + size - 1) % size);
  if (node.parent) node.parent = back(*node.parent);
  for (u32& child : node.children) child = back(child);
  return node;
}

}  // namespace softib::coll
