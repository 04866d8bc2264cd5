#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "coll/kernels/kernels.h"
#include "tree_world.h"

namespace softib::aggregation::test {

using coll::DataType;
using coll::Op;
using coll::innetwork::SegmentKind;
using testing::HasSubstr;

namespace {

// Small numbers whose sums and products are exact in any type, whatever their order.
double any_number(DataType type, Op op, std::mt19937_64& random) {
  const bool narrow = type == DataType::float8_e4m3 || type == DataType::float8_e5m2;
  if (op == Op::sum || op == Op::avg) return narrow ? 1 : static_cast<double>(random() % 3 + 1);
  return static_cast<double>(random() % 2 + 1);
}

// Gives all hosts the same segments, and data of their own.
void give_work(TreeWorld& world, u32 segments, DataType type, Op op, u32 most_bytes, std::mt19937_64& random) {
  for (u32 number = 0; number < segments; ++number) {
    const u64 size = coll::size_of(type);
    const u32 elements = static_cast<u32>(random() % (most_bytes / size + 1));
    const Segment segment{.type = type, .op = op, .bytes = static_cast<u32>(elements * size)};
    for (Host& host : world.hosts) {
      Message data(segment.bytes);
      for (u32 i = 0; i < elements; ++i) {
        const auto value = coll::Scalar::from_number(type, any_number(type, op, random));
        std::memcpy(data.data() + i * size, value.bytes(), size);
      }
      host.segments.push_back(segment);
      host.data.push_back(std::move(data));
    }
  }
}

Message expected_result(const TreeWorld& world, u32 number) {
  const Segment& segment = world.hosts[0].segments[number];
  std::vector<const void*> inputs;
  for (const Host& host : world.hosts) inputs.push_back(host.data[number].data());
  Message result(segment.bytes);
  coll::kernels::reduce(segment.type, segment.op, result.data(), inputs, segment.bytes / coll::size_of(segment.type),
                        static_cast<u32>(world.hosts.size()));
  return result;
}

struct Shape {
  std::vector<i32> parents;
  std::vector<u32> node_of_host;
};

// One node; two tiers; three tiers; hosts on inner nodes too.
Shape shape(u64 number) {
  switch (number % 4) {
    case 0:
      return {{-1}, {0, 0, 0}};
    case 1:
      return {{2, 2, -1}, {0, 0, 1, 1, 1}};
    case 2:
      return {{4, 4, 5, 5, 6, 6, -1}, {0, 0, 1, 2, 3, 3}};
    default:
      return {{1, 2, -1}, {0, 1, 2, 0}};
  }
}

TEST(Node, EveryHostGetsTheSumWhateverComesFirst) {
  for (u64 seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Quota quota{static_cast<u32>(512 + 64 * (random() % 4)), static_cast<u32>(1 + random() % 4)};
    const Shape form = shape(seed);
    TreeWorld world(seed, quota, form.parents, form.node_of_host);
    const auto type = static_cast<DataType>(random() % coll::type_table.size());
    const auto op = static_cast<Op>(random() % 5);
    give_work(world, static_cast<u32>(random() % 12), type, op, quota.segment_bytes, random);
    world.run();
    for (const Host& host : world.hosts) {
      ASSERT_EQ(host.failure, "");
      ASSERT_EQ(host.results.size(), host.segments.size());
      for (u32 i = 0; i < host.results.size(); ++i) ASSERT_EQ(host.results[i], expected_result(world, i));
    }
    for (u32 node = 0; node < world.nodes(); ++node) {
      EXPECT_EQ(world.receives_out(node), 0U);
      EXPECT_TRUE(world.node(node).is_over());
      EXPECT_TRUE(world.node(node).is_idle());
      EXPECT_FALSE(world.node(node).failure());
    }
  }
}

// Sums of numbers that round differ with their order: any order of arrival gives the same bits.
TEST(Node, TheSameBitsWhateverComesFirst) {
  std::vector<Message> first;
  for (u64 seed = 0; seed < 20; ++seed) {
    TreeWorld world(seed, {512, 2}, {2, 2, -1}, {0, 0, 0, 1, 1});
    std::mt19937_64 random(7);
    for (Host& host : world.hosts)
      for (u32 number = 0; number < 5; ++number) {
        Message data(512);
        for (u32 i = 0; i < 128; ++i) {
          const float value = std::ldexp(static_cast<float>(random() % 1000), static_cast<int>(random() % 40) - 20);
          std::memcpy(data.data() + 4 * i, &value, 4);
        }
        host.segments.push_back({.type = DataType::float32, .op = Op::sum, .bytes = 512});
        host.data.push_back(data);
      }
    world.run();
    if (seed == 0) first = world.hosts[0].results;
    ASSERT_EQ(first.size(), 5U);
    for (const Host& host : world.hosts) EXPECT_EQ(host.results, first);
  }
}

TEST(Node, OneGivesAndAllGet) {
  for (u64 seed = 0; seed < 20; ++seed) {
    TreeWorld world(seed, {512, 3}, {2, 2, -1}, {0, 0, 1, 1});
    const Message data(96, std::byte{0x5a});
    for (u32 host = 0; host < 4; ++host)
      for (u32 number = 0; number < 6; ++number) {
        world.hosts[host].segments.push_back({.gives = host == number % 4, .bytes = 96});
        world.hosts[host].data.push_back(data);
      }
    world.run();
    for (const Host& host : world.hosts) EXPECT_EQ(host.results, std::vector<Message>(6, data)) << host.failure;
  }
}

TEST(Node, KeepsNoMoreThanTheQuota) {
  std::mt19937_64 random(3);
  TreeWorld world(3, {512, 4}, {2, 2, -1}, {0, 0, 0, 1, 1, 1});
  give_work(world, 50, DataType::int32, Op::sum, 512, random);
  world.run();
  EXPECT_LE(world.most_receives(2), 2 * 4U + 2);  // and a leave each
}

TEST(Node, AHostThatDiesEndsTheJobForAll) {
  for (u64 seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Shape form = shape(seed);
    TreeWorld world(seed, {512, 2}, form.parents, form.node_of_host);
    give_work(world, 20, DataType::int32, Op::sum, 512, random);
    for (u64 steps = random() % 100; steps > 0; --steps) world.step();
    const auto victim = static_cast<u32>(random() % world.hosts.size());
    world.kill(victim);
    world.run();
    for (const Host& host : world.hosts) EXPECT_TRUE(host.dead || host.failure.ends_with("died")) << host.failure;
    for (u32 node = 0; node < world.nodes(); ++node) {
      EXPECT_EQ(world.receives_out(node), 0U);
      EXPECT_TRUE(world.node(node).is_idle());
    }
  }
}

TEST(Node, CallsThatDontFitAreNamed) {
  TreeWorld world(1, {512, 2}, {-1}, {0, 0});
  std::mt19937_64 random(1);
  give_work(world, 1, DataType::float32, Op::sum, 0, random);
  world.hosts[0].segments[0].bytes = 8;
  world.hosts[0].data[0].resize(8);
  world.hosts[1].segments[0].bytes = 12;
  world.hosts[1].data[0].resize(12);
  world.run();
  for (const Host& host : world.hosts)
    EXPECT_EQ(host.failure,
              "calls don't fit together: host0 gives 8 bytes of float, sum, host1 gives 12 bytes of float, sum");
}

TEST(Node, WhoLeavesEarlyIsNamed) {
  TreeWorld world(1, {512, 2}, {-1}, {0, 0});
  std::mt19937_64 random(1);
  give_work(world, 1, DataType::int32, Op::sum, 64, random);
  world.hosts[1].segments.clear();
  world.run();
  EXPECT_EQ(world.hosts[0].failure, "host1 has left");
}

TEST(Node, WhatIsAgainstTheRulesEndsTheJob) {
  const auto message = [](Segment segment) {
    Message bytes(coll::innetwork::segment_header + segment.bytes);
    coll::innetwork::emit(segment, bytes.data());
    return bytes;
  };
  const u32 job = TreeWorld::job;
  const std::vector<std::pair<Message, std::string>> wrongs{
      {Message(10), "that is no segment"},
      {message({.kind = SegmentKind::contribution, .job = 5}), "it speaks of job 5"},
      {message({.kind = SegmentKind::result, .job = job}), "that isn't for a parent to hear"},
      {message({.kind = SegmentKind::contribution, .job = job, .bytes = 1024}), "a segment of 1024 bytes where 512"},
      {message({.kind = SegmentKind::contribution, .job = job, .sequence = 9}), "segment 9 where 0 is next"}};
  for (const auto& [bytes, words] : wrongs) {
    TreeWorld world(1, {512, 2}, {-1}, {0, 0});
    for (Host& host : world.hosts) host.leaves = false;
    world.inject(0, bytes);
    world.run();
    EXPECT_THAT(world.hosts[1].failure, HasSubstr("host0: " + words));
    EXPECT_EQ(world.receives_out(0), 0U);
  }
  TreeWorld world(1, {512, 2}, {-1}, {0, 0});
  for (Host& host : world.hosts) host.leaves = false;
  for (u64 i = 0; i < 3; ++i) world.inject(0, message({.kind = SegmentKind::contribution, .job = job, .sequence = i}));
  world.run();
  EXPECT_THAT(world.hosts[1].failure, HasSubstr("more than 2 segments under way"));
}

}  // namespace

}  // namespace softib::aggregation::test
