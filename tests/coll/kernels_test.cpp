#include <gtest/gtest.h>

#include <random>

#include "coll/kernels/dispatch.h"
#include "coll/kernels/kernels.h"
#include "reference.h"

#include <hwy/targets.h>

namespace softib::coll::test {

namespace {

using kernels::Stores;
using Bytes = std::vector<std::byte>;

// Runs its body with each instruction set that this processor and build have.
template <typename Body>
void for_each_instructions(const Body& body) {
  const i64 all = hwy::SupportedTargets() & HWY_TARGETS;
  for (i64 left = all; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(left & -left);
    SCOPED_TRACE(hwy::TargetName(left & -left));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

class KernelsTest : public testing::Test {
 protected:
  u64 seed = std::random_device()();
  testing::ScopedTrace trace{__FILE__, __LINE__, testing::Message() << "seed " << seed};
  std::mt19937_64 random{seed};

  u64 below(u64 limit) { return random() % limit; }

  // Any bits; often values at which something turns.
  void fill(DataType type, std::span<std::byte> bytes) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (!is_floating(type)) return;
    const bool mild = below(2) == 0;
    for (u64 i = 0; i < bytes.size() / size_of(type); ++i) set_float(type, bytes, i, mild);
  }

  void set_float(DataType type, std::span<std::byte> bytes, u64 i, bool mild) {
    static constexpr double specials[]{0.0,   -0.0, 1,   -1,    HUGE_VAL, -HUGE_VAL, NAN,    1e-310,
                                       1e-40, 6e-8, 448, 57344, 65504,    3.3e38,    1.7e308};
    double value = specials[below(std::size(specials))];
    if (mild)
      value = static_cast<double>(below(2000)) / 64 - 16;
    else if (below(2) == 0)
      return;
    const Scalar scalar = Scalar::from_number(type, value);
    std::memcpy(bytes.data() + i * size_of(type), scalar.bytes(), size_of(type));
  }
};

namespace {

// Inputs and an output that may begin anywhere, with guards around the output.
struct Case {
  DataType type;
  Op op;
  u64 count;
  u32 ranks;
  Stores stores;
  int in_place = -1;  // the input that is the output too
};

class Buffers {
 public:
  static constexpr u64 guard = 64;

  Buffers(const Case& its, std::size_t inputs, std::mt19937_64& random) : its_(its) {
    for (std::size_t k = 0; k <= inputs; ++k) {
      bytes_.emplace_back(its.count * size_of(its.type) + 2 * guard, std::byte{0x5a});
      // Mostly aligned as their type is, now and then not at all.
      shifts_.push_back(random() % guard / (random() % 4 == 0 ? 1 : size_of(its.type)) * size_of(its.type) % guard);
    }
  }
  std::span<std::byte> input(std::size_t k) { return at(its_.in_place == static_cast<int>(k) ? 0 : k + 1); }
  std::span<std::byte> output() { return at(0); }
  bool guards_hold() {
    const std::span<std::byte> used = output();
    for (std::byte& byte : bytes_[0])
      if ((&byte < used.data() || &byte >= used.data() + used.size()) && byte != std::byte{0x5a}) return false;
    return true;
  }

 private:
  std::span<std::byte> at(std::size_t i) {
    return std::span(bytes_[i]).subspan(shifts_[i], its_.count * size_of(its_.type));
  }
  Case its_;
  std::vector<Bytes> bytes_;
  std::vector<u64> shifts_;
};

void expect_same(const Case& its, std::span<const std::byte> got, std::span<const std::byte> expected) {
  for (u64 i = 0; i < its.count; ++i)
    ASSERT_TRUE(same(its.type, got, expected, i))
        << name_of(its.type) << " " << name_of(its.op) << " element " << i << " of " << its.count << ", divided by "
        << its.ranks << ": " << Scalar::of(its.type, got.data() + i * size_of(its.type)).number() << ", not "
        << Scalar::of(its.type, expected.data() + i * size_of(its.type)).number();
}

constexpr Op reducing_ops[]{Op::sum, Op::prod, Op::max, Op::min, Op::avg};

}  // namespace

class ReduceTest : public KernelsTest {
 protected:
  void check(const Case& its, std::size_t input_count) {
    Buffers buffers(its, input_count, random);
    Inputs plain;
    std::vector<Bytes> copies;
    std::vector<const void*> inputs;
    for (std::size_t k = 0; k < input_count; ++k) {
      fill(its.type, buffers.input(k));
      copies.emplace_back(buffers.input(k).begin(), buffers.input(k).end());
      inputs.push_back(buffers.input(k).data());
    }
    for (const Bytes& copy : copies) plain.emplace_back(copy);
    Bytes expected(its.count * size_of(its.type));
    reduce(its.type, its.op, expected, plain, its.count, its.ranks);
    kernels::reduce(its.type, its.op, buffers.output().data(), inputs, its.count, its.ranks, its.stores);
    ASSERT_NO_FATAL_FAILURE(expect_same(its, buffers.output(), expected));
    ASSERT_TRUE(buffers.guards_hold()) << name_of(its.type) << " " << name_of(its.op) << " " << its.count;
  }

  Case any_case(DataType type, Op op, u64 count) {
    const u32 ranks = op == Op::avg ? static_cast<u32>(1 + below(9)) : 1;
    return {type, op, count, ranks, below(2) == 0 ? Stores::cached : Stores::streaming};
  }
};

// Lengths around each vector width and block, from one byte to beyond four of the widest vectors.
TEST_F(ReduceTest, EachTypeOperatorAndLength) {
  for_each_instructions([this] {
    for (const TypeRow& row : type_table)
      for (const Op op : reducing_ops) {
        for (const u64 bytes : {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512})
          for (const int more : {-1, 0, 1}) {
            if (bytes == 0 && more < 0) continue;
            const u64 count = bytes / row.size + static_cast<u64>(more);
            if (count > 1024) continue;
            ASSERT_NO_FATAL_FAILURE(check(any_case(row.type, op, count), 2 + below(7)));
          }
      }
  });
}

TEST_F(ReduceTest, OutputMayBeAnInput) {
  for_each_instructions([this] {
    for (const TypeRow& row : type_table)
      for (const Op op : reducing_ops) {
        const std::size_t inputs = 2 + below(4);
        Case its = any_case(row.type, op, 1 + below(700));
        its.in_place = static_cast<int>(below(inputs));
        ASSERT_NO_FATAL_FAILURE(check(its, inputs));
      }
  });
}

TEST_F(ReduceTest, OneInputIsCopiedOrDivided) {
  for_each_instructions([this] {
    for (const TypeRow& row : type_table)
      for (const u32 ranks : {1U, 2U, 3U, 8U, 1000U}) {
        Case its{row.type, Op::avg, 1 + below(5000), ranks, Stores::automatic};
        ASSERT_NO_FATAL_FAILURE(check(its, 1));
      }
  });
}

TEST_F(ReduceTest, ManyInputsAreRoundedOnce) {
  for_each_instructions([this] {
    for (const TypeRow& row : type_table) ASSERT_NO_FATAL_FAILURE(check(any_case(row.type, Op::sum, 100), 40));
  });
}

TEST_F(ReduceTest, EachPairOfBytes) {
  Bytes a(65536);
  Bytes b(65536);
  for (u32 i = 0; i < 65536; ++i) {
    a[i] = static_cast<std::byte>(i);
    b[i] = static_cast<std::byte>(i >> 8);
  }
  const void* inputs[]{a.data(), b.data()};
  for_each_instructions([&] {
    for (const DataType type : {DataType::int8, DataType::uint8, DataType::float8_e4m3, DataType::float8_e5m2})
      for (const Op op : reducing_ops) {
        const Case its{type, op, 65536, op == Op::avg ? 2U : 1U, Stores::cached};
        Bytes out(65536);
        Bytes expected(65536);
        kernels::reduce(type, op, out.data(), inputs, its.count, its.ranks);
        reduce(type, op, expected, {a, b}, its.count, its.ranks);
        ASSERT_NO_FATAL_FAILURE(expect_same(its, out, expected));
      }
  });
}

// Max and min of floating types give the same bits in any order of inputs, NaN and zeros included.
TEST_F(ReduceTest, OrderOfExtremesDoesNotMatter) {
  for_each_instructions([this] {
    for (const TypeRow& row : type_table)
      for (const Op op : {Op::max, Op::min}) {
        Bytes a(512);
        Bytes b(512);
        fill(row.type, a);
        fill(row.type, b);
        Bytes one(512);
        Bytes two(512);
        const void* forward[]{a.data(), b.data()};
        const void* backward[]{b.data(), a.data()};
        kernels::reduce(row.type, op, one.data(), forward, 512 / row.size);
        kernels::reduce(row.type, op, two.data(), backward, 512 / row.size);
        ASSERT_EQ(one, two) << row.name << " " << name_of(op);
      }
  });
}

TEST_F(KernelsTest, ScaleMultipliesOnce) {
  for_each_instructions([this] {
    for (const TypeRow& row : type_table)
      for (const double factor : {0.0, 1.0, 3.0, 7.0}) {
        const Scalar scalar = Scalar::from_number(row.type, is_floating(row.type) ? factor / 2 : factor);
        const Case its{row.type,
                       Op::prod,
                       below(600),
                       1,
                       below(2) == 0 ? Stores::cached : Stores::streaming,
                       below(2) == 0 ? 0 : -1};
        Buffers buffers(its, 1, random);
        fill(row.type, buffers.input(0));
        const Bytes in(buffers.input(0).begin(), buffers.input(0).end());
        Bytes factors(its.count * row.size);
        for (u64 i = 0; i < its.count; ++i) std::memcpy(factors.data() + i * row.size, scalar.bytes(), row.size);
        Bytes expected(its.count * row.size);
        reduce(row.type, Op::prod, expected, {in, factors}, its.count, 1);
        kernels::scale(scalar, buffers.output().data(), buffers.input(0).data(), its.count, its.stores);
        ASSERT_NO_FATAL_FAILURE(expect_same(its, buffers.output(), expected));
        ASSERT_TRUE(buffers.guards_hold());
      }
  });
}

TEST_F(KernelsTest, CopiesOfAnyLengthAndPlace) {
  for_each_instructions([this] {
    for (u64 count = 0; count < 700; ++count) {
      const Case its{DataType::uint8, Op::sum, count, 1, count % 2 == 0 ? Stores::cached : Stores::streaming};
      Buffers buffers(its, 1, random);
      fill(its.type, buffers.input(0));
      kernels::copy(buffers.output().data(), buffers.input(0).data(), count, its.stores);
      ASSERT_NO_FATAL_FAILURE(expect_same(its, buffers.output(), buffers.input(0)));
      ASSERT_TRUE(buffers.guards_hold());
    }
  });
}

// What is long enough streams by itself.
TEST_F(KernelsTest, LongOutputsAreRightToo) {
  const u64 count = kernels::streaming_bytes / 4 + 123;
  std::vector<float> a(count);
  std::vector<float> b(count);
  for (u64 i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = static_cast<float>(i % 77);
  }
  std::vector<float> out(count + 1);
  const void* inputs[]{a.data(), b.data()};
  for (const std::size_t shift : {0, 1}) {
    kernels::reduce(DataType::float32, Op::sum, out.data() + shift, inputs, count);
    for (u64 i = 0; i < count; ++i) ASSERT_EQ(out[shift + i], a[i] + b[i]) << i;
  }
  kernels::copy(out.data(), a.data(), count * 4);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), out.begin()));
}

TEST_F(KernelsTest, SaysWhichInstructions) { EXPECT_STRNE(kernels::instructions(), ""); }

}  // namespace softib::coll::test
