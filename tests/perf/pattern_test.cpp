// What ranks give sums up exactly, whatever the order, and what must come of it is what the kernels make of it.
#include "perf/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "coll/kernels/kernels.h"

namespace softib::perf {
namespace {

using coll::DataType;
using coll::Op;
using Bytes = std::vector<std::byte>;

constexpr u64 count = 700;  // more than a block

// The parts of all ranks, combined by twos in a random order, as the worst of algorithms might; the last combination is
// the one that is complete.
Bytes combined_at_random(DataType type, Op op, u32 ranks, std::mt19937& random) {
  const Pattern pattern(type, op, ranks, 7);
  std::vector<Bytes> parts(ranks, Bytes(count * coll::size_of(type)));
  for (u32 rank = 0; rank < ranks; ++rank) {
    pattern.give(parts[rank].data(), 0, count, rank);
    if (op != Op::premul_sum) continue;
    coll::kernels::scale(coll::Scalar::from_number(type, factor_of(rank)), parts[rank].data(), parts[rank].data(),
                         count);
  }
  while (parts.size() > 1) {
    std::shuffle(parts.begin(), parts.end(), random);
    const Bytes last = std::move(parts.back());
    parts.pop_back();
    const std::vector<const void*> inputs{parts.back().data(), last.data()};
    coll::kernels::reduce(type, op, parts.back().data(), inputs, count, parts.size() == 1 ? ranks : 1);
  }
  return parts.front();
}

Bytes combined_at_once(DataType type, Op op, u32 ranks) {
  const Pattern pattern(type, op, ranks, 7);
  std::vector<Bytes> parts(ranks, Bytes(count * coll::size_of(type)));
  std::vector<const void*> inputs;
  for (u32 rank = 0; rank < ranks; ++rank) {
    pattern.give(parts[rank].data(), 0, count, rank);
    if (op == Op::premul_sum)
      coll::kernels::scale(coll::Scalar::from_number(type, factor_of(rank)), parts[rank].data(), parts[rank].data(),
                           count);
    inputs.push_back(parts[rank].data());
  }
  Bytes result(parts.front().size());
  coll::kernels::reduce(type, op, result.data(), inputs, count, ranks);
  return result;
}

Bytes expected_of(DataType type, Op op, u32 ranks) {
  Bytes result(count * coll::size_of(type));
  Pattern(type, op, ranks, 7).result(result.data(), 0, count);
  return result;
}

TEST(Pattern, IsExactForEveryTypeOperatorAndNumberOfRanks) {
  std::mt19937 random(4711);
  for (const coll::TypeRow& row : coll::type_table)
    for (const std::string_view name : coll::op_names)
      for (u32 ranks = 1; ranks <= 64; ranks += ranks < 9 ? 1 : 11) {
        const Op op = *coll::op_from_name(name);
        SCOPED_TRACE(std::string(row.name) + " " + std::string(name) + " " + std::to_string(ranks));
        const Bytes expected = expected_of(row.type, op, ranks);
        EXPECT_EQ(count_wrong(combined_at_once(row.type, op, ranks).data(), expected.data(), row.type, count), 0U);
        EXPECT_EQ(count_wrong(combined_at_random(row.type, op, ranks, random).data(), expected.data(), row.type, count),
                  0U);
      }
}

// A check is worth something only if results without one rank's part, or with it twice, differ.
TEST(Pattern, ShowsWhenARankIsMissing) {
  for (const coll::TypeRow& row : coll::type_table)
    for (const Op op : {Op::sum, Op::prod, Op::avg, Op::premul_sum}) {
      SCOPED_TRACE(std::string(row.name) + " " + std::string(coll::name_of(op)));
      constexpr u32 ranks = 5;
      const Bytes expected = expected_of(row.type, op, ranks);
      std::vector<Bytes> parts(ranks - 1, Bytes(expected.size()));
      std::vector<const void*> inputs;
      for (u32 rank = 0; rank + 1 < ranks; ++rank) {
        Pattern(row.type, op, ranks, 7).give(parts[rank].data(), 0, count, rank);
        inputs.push_back(parts[rank].data());
      }
      Bytes result(expected.size());
      coll::kernels::reduce(row.type, op, result.data(), inputs, count, ranks);
      EXPECT_GT(count_wrong(result.data(), expected.data(), row.type, count), count / 8);
    }
}

TEST(Pattern, PartsFitTheWhole) {
  const Pattern pattern(DataType::float32, Op::sum, 3, 1);
  std::vector<float> whole(count);
  std::vector<float> part(100);
  pattern.result(whole.data(), 0, count);
  pattern.result(part.data(), 333, part.size());
  EXPECT_EQ(std::memcmp(part.data(), whole.data() + 333, sizeof(float) * part.size()), 0);
}

TEST(Stream, IsAPieceOfTheSameWhereverItBegins) {
  std::vector<u32> whole(100);
  std::vector<u32> part(10);
  write_stream(whole.data(), DataType::uint32, 0, whole.size(), 3);
  write_stream(part.data(), DataType::uint32, 50, part.size(), 3);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 50));
  write_stream(part.data(), DataType::uint32, 50, part.size(), 4);
  EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin() + 50));
}

TEST(CountWrong, CountsElementsOnce) {
  std::vector<double> a(1000, 1.0);
  std::vector<double> b = a;
  EXPECT_EQ(count_wrong(a.data(), b.data(), DataType::float64, a.size()), 0U);
  for (const std::size_t i : {0, 511, 512, 999}) b[i] = -1;
  EXPECT_EQ(count_wrong(a.data(), b.data(), DataType::float64, a.size()), 4U);
}

}  // namespace
}  // namespace softib::perf
