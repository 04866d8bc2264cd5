#include <gtest/gtest.h>

#include <random>

#include "coll/narrow_floats.h"
#include "coll/types.h"
#include "reference.h"

namespace softib::coll::test {

namespace {

struct Conversion {
  DataType type;
  u32 (*to)(float);
  float (*from)(u32);
};

const Conversion conversions[]{
    {DataType::float16, [](float v) -> u32 { return to_half(v); },
     [](u32 bits) { return from_half(static_cast<u16>(bits)); }},
    {DataType::bfloat16, [](float v) -> u32 { return to_bfloat16(v); },
     [](u32 bits) { return from_bfloat16(static_cast<u16>(bits)); }},
    {DataType::float8_e4m3, [](float v) -> u32 { return to_e4m3(v); },
     [](u32 bits) { return from_e4m3(static_cast<u8>(bits)); }},
    {DataType::float8_e5m2, [](float v) -> u32 { return to_e5m2(v); },
     [](u32 bits) { return from_e5m2(static_cast<u8>(bits)); }},
};

bool same_narrow(const FormatRow& format, u32 a, u32 b) {
  return a == b || (std::isnan(decoded(format, a)) && std::isnan(decoded(format, b)));
}

void expect_conversion(const Conversion& conversion, float value) {
  const FormatRow& format = narrow_row(conversion.type);
  ASSERT_TRUE(same_narrow(format, conversion.to(value), encoded(format, value)))
      << name_of(conversion.type) << " of " << value << ": " << conversion.to(value) << ", not "
      << encoded(format, value);
}

}  // namespace

TEST(TypesTest, ValuesAreThoseOfNccl) {
  for (std::size_t i = 0; i < type_table.size(); ++i) EXPECT_EQ(static_cast<std::size_t>(type_table[i].type), i);
  EXPECT_EQ(static_cast<int>(DataType::float16), 6);
  EXPECT_EQ(static_cast<int>(DataType::bfloat16), 9);
  EXPECT_EQ(static_cast<int>(Op::avg), 4);
}

TEST(TypesTest, NamesGoBothWays) {
  for (const TypeRow& row : type_table) EXPECT_EQ(type_from_name(row.name), row.type);
  for (std::size_t i = 0; i < op_names.size(); ++i) EXPECT_EQ(op_from_name(op_names[i]), static_cast<Op>(i));
  EXPECT_FALSE(type_from_name("Half"));
  EXPECT_FALSE(op_from_name(""));
}

TEST(TypesTest, EachNarrowPatternHasItsValue) {
  for (const Conversion& conversion : conversions) {
    const FormatRow& format = narrow_row(conversion.type);
    for (u32 bits = 0; bits >> format.bits == 0; ++bits) {
      const float mine = conversion.from(bits);
      const double plain = decoded(format, bits);
      if (std::isnan(plain)) {
        ASSERT_TRUE(std::isnan(mine)) << name_of(conversion.type) << " " << bits;
      } else {
        ASSERT_EQ(mine, plain) << name_of(conversion.type) << " " << bits;
        ASSERT_EQ(std::signbit(mine), std::signbit(plain));
      }
    }
  }
}

// Each value, its neighbours among floats, and the middle to the next value with its neighbours: where rounding turns.
TEST(TypesTest, RoundingIsToNearestEven) {
  for (const Conversion& conversion : conversions) {
    const FormatRow& format = narrow_row(conversion.type);
    for (u32 bits = 0; bits >> (format.bits - 1) == 0; ++bits) {
      const double value = decoded(format, bits);
      const double next = decoded(format, bits + 1);
      for (const double point : {value, (value + next) / 2}) {
        if (!std::isfinite(point)) continue;
        const auto single = static_cast<float>(point);
        for (const float near : {single, std::nextafter(single, -1e38F), std::nextafter(single, HUGE_VALF)}) {
          expect_conversion(conversion, near);
          expect_conversion(conversion, -near);
        }
      }
    }
  }
}

TEST(TypesTest, AnyFloatConverts) {
  const u64 seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const Conversion& conversion : conversions) {
    for (const float special : {0.F, -0.F, HUGE_VALF, -HUGE_VALF, std::nanf(""), 3.4e38F, 1e-45F, 448.F, 464.F, 465.F,
                                57344.F, 61439.F, 61440.F, 65519.F, 65520.F})
      expect_conversion(conversion, special);
    for (int i = 0; i < 100000; ++i) expect_conversion(conversion, std::bit_cast<float>(static_cast<u32>(random())));
  }
}

TEST(TypesTest, ScalarsKeepTheirBits) {
  for (const TypeRow& row : type_table) {
    const Scalar three = Scalar::from_number(row.type, 3);
    EXPECT_EQ(three.number(), 3) << row.name;
    EXPECT_EQ(three.type(), row.type);
    const Scalar again = Scalar::of(row.type, three.bytes());
    EXPECT_EQ(again.bits(), three.bits()) << row.name;
  }
  EXPECT_EQ(Scalar::from_number(DataType::int8, -1).bits(), 0xffU);
}

}  // namespace softib::coll::test
