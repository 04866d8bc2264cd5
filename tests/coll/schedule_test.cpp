#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "coll/schedule/algorithms.h"
#include "coll/schedule/partners.h"

namespace softib::coll::test {

TEST(ScheduleTest, BuilderLeavesOutWhatIsEmpty) {
  Builder builder;
  const Span nothing{Buffer::input, 3, 0};
  const Span some{Buffer::input, 3, 4};
  builder.send(1, nothing);
  builder.receive(1, nothing);
  builder.copy(some, some);
  builder.end_round();
  EXPECT_EQ(builder.finish().rounds(), 0U);
  builder.send_signal(1);
  builder.end_round();
  builder.end_round();
  builder.receive(1, {Buffer::output, 0, 2});
  const Schedule schedule = builder.finish();
  ASSERT_EQ(schedule.rounds(), 2U);
  EXPECT_EQ(schedule.round(0)[0].kind, Kind::send);
  EXPECT_EQ(schedule.round(1)[0].to, (Span{Buffer::output, 0, 2}));
}

TEST(ScheduleTest, CopiesThatGoOnBecomeOne) {
  Builder builder;
  builder.copy({Buffer::input, 0, 4}, {Buffer::output, 10, 4});
  builder.copy({Buffer::input, 4, 2}, {Buffer::output, 14, 2});
  builder.copy({Buffer::input, 6, 2}, {Buffer::output, 20, 2});
  builder.end_round();
  builder.copy({Buffer::input, 8, 2}, {Buffer::output, 22, 2});
  const Schedule schedule = builder.finish();
  ASSERT_EQ(schedule.steps.size(), 3U);
  EXPECT_EQ(schedule.steps[0].to, (Span{Buffer::output, 10, 6}));
}

TEST(ScheduleTest, EvenBlocksCoverTheWhole) {
  for (const u64 count : {0, 1, 5, 16, 17, 63, 64, 1000})
    for (const u32 parts : {1U, 2U, 3U, 7U, 16U})
      for (const u64 granule : {1, 4, 16}) {
        const Blocks blocks = even_blocks({100, count}, parts, granule);
        ASSERT_EQ(blocks.size(), parts);
        EXPECT_TRUE(adjoin(blocks));
        EXPECT_EQ(blocks[0].offset, 100U);
        EXPECT_EQ(total(blocks), count);
        u64 largest = 0;
        for (const Range& block : blocks) {
          largest = std::max(largest, block.count);
          EXPECT_TRUE(block.count == 0 || (block.offset - 100) % granule == 0);
        }
        EXPECT_EQ(blocks[0].count, largest);
        EXPECT_LT(largest, count / parts + granule + 1);
      }
}

TEST(ScheduleTest, SlicesCoverEachBlockOnce) {
  Problem problem;
  problem.input = {{3, 10}, {20, 0}, {30, 7}};
  problem.granule = 4;
  std::multiset<u64> covered;
  for (u32 lane = 0; lane < 3; ++lane)
    for (const Range& block : slice(problem, lane, 3).input)
      for (u64 at = block.offset; at < block.end(); ++at) covered.insert(at);
  EXPECT_EQ(covered.size(), 17U);
  for (const u64 at : covered) EXPECT_EQ(covered.count(at), 1U);
  EXPECT_TRUE(covered.count(3) == 1 && covered.count(12) == 1 && covered.count(36) == 1);
}

TEST(PartnersTest, LogarithmsRoundBothWays) {
  EXPECT_EQ(log2_below(1), 0U);
  EXPECT_EQ(log2_above(1), 0U);
  EXPECT_EQ(log2_below(7), 2U);
  EXPECT_EQ(log2_above(7), 3U);
  EXPECT_EQ(log2_above(8), 3U);
  EXPECT_EQ(log2_above(9), 4U);
}

TEST(PartnersTest, FoldGivesEachMemberToOnePlace) {
  for (u32 size = 1; size <= 70; ++size) {
    std::vector<int> stands(size);
    for (u32 index = 0; index < size; ++index) {
      const Fold fold(size, index);
      ASSERT_TRUE(std::has_single_bit(fold.core_size()) && fold.core_size() <= size && fold.core_size() * 2 > size);
      EXPECT_TRUE(!fold.partner() || Fold(size, *fold.partner()).partner() == index);
      if (!fold.place()) continue;
      EXPECT_EQ(fold.member(*fold.place()), index);
      for (u32 member = fold.first(*fold.place()); member < fold.first(*fold.place() + 1); ++member) ++stands[member];
    }
    for (const int times : stands) EXPECT_EQ(times, 1) << size;
  }
}

TEST(PartnersTest, HalvingsMeetAndEndInOwnBlocks) {
  for (const Order order : {Order::near_first, Order::far_first})
    for (u32 size = 1; size <= 64; size *= 2) {
      std::set<u32> ends;
      for (u32 place = 0; place < size; ++place) {
        const auto rounds = halvings(size, place, order);
        ASSERT_EQ(rounds.size(), log2_below(size));
        for (std::size_t i = 0; i < rounds.size(); ++i) {
          const Halving other = halvings(size, rounds[i].peer, order)[i];
          EXPECT_EQ(other.peer, place);
          EXPECT_EQ(other.give_first, rounds[i].keep_first);
          EXPECT_EQ(other.give_last, rounds[i].keep_last);
        }
        const u32 end = rounds.empty() ? 0 : rounds.back().keep_first;
        EXPECT_TRUE(order == Order::near_first || end == place);
        ends.insert(end);
      }
      EXPECT_EQ(ends.size(), size);
    }
}

namespace {

using NodeOf = TreeNode (*)(u32 size, u32 place);

// Parents and children agree, and all hang below one root. Gives the depth.
u32 tree_depth(u32 size, NodeOf node_of) {
  u32 roots = 0;
  u32 deepest = 0;
  for (u32 place = 0; place < size; ++place) {
    const TreeNode node = node_of(size, place);
    roots += node.parent ? 0 : 1;
    for (const u32 child : node.children) EXPECT_EQ(node_of(size, child).parent, place);
    u32 depth = 0;
    for (auto up = node.parent; up && depth <= size; up = node_of(size, *up).parent) {
      const auto& siblings = node_of(size, *up).children;
      EXPECT_TRUE(depth != 0 || std::count(siblings.begin(), siblings.end(), place) == 1);
      ++depth;
    }
    deepest = std::max(deepest, depth);
  }
  EXPECT_EQ(roots, 1U);
  return deepest;
}

}  // namespace

TEST(PartnersTest, BinomialTreesHaveTheirDepthAndSubtrees) {
  for (u32 size = 1; size <= 70; ++size) {
    EXPECT_LE(tree_depth(size, binomial_node), log2_above(size)) << size;
    for (u32 place = 0; place < size; ++place) {
      const TreeNode node = binomial_node(size, place);
      u32 below = 1;
      for (const u32 child : node.children) below += binomial_node(size, child).subtree;
      EXPECT_EQ(node.subtree, below);
    }
  }
}

TEST(PartnersTest, DoubleTreesShareTheWork) {
  const NodeOf trees[]{[](u32 size, u32 place) { return double_tree_node(size, place, false); },
                       [](u32 size, u32 place) { return double_tree_node(size, place, true); }};
  for (u32 size = 1; size <= 130; ++size) {
    for (const NodeOf tree : trees) EXPECT_LE(tree_depth(size, tree), log2_below(size) + 1) << size;
    u32 busy_in_both = 0;
    for (u32 place = 0; place < size; ++place) {
      const std::size_t first = trees[0](size, place).children.size();
      const std::size_t second = trees[1](size, place).children.size();
      EXPECT_LE(first, 2U);
      EXPECT_LE(first + second, 2U) << size;
      busy_in_both += first != 0 && second != 0 ? 1 : 0;
    }
    EXPECT_LE(busy_in_both, size % 2) << size;
  }
}

TEST(ExchangeTest, MessagesAndCopiesInTheirOrder) {
  const Group group{4, 1, {}};
  const Message sends[]{{0, {0, 5}}, {1, {5, 2}}, {0, {7, 1}}, {3, {8, 0}}};
  const Message receives[]{{2, {0, 4}}, {1, {4, 2}}};
  const Schedule schedule = exchange(group, sends, receives);
  ASSERT_EQ(schedule.rounds(), 1U);
  ASSERT_EQ(schedule.steps.size(), 4U);
  EXPECT_EQ(schedule.steps[0].from, (Span{Buffer::input, 0, 5}));
  EXPECT_EQ(schedule.steps[1].from, (Span{Buffer::input, 7, 1}));
  EXPECT_EQ(schedule.steps[2].peer, 2U);
  EXPECT_EQ(schedule.steps[3].kind, Kind::copy);
  EXPECT_EQ(schedule.steps[3].from, (Span{Buffer::input, 5, 2}));
}

}  // namespace softib::coll::test
