#include "hca/rules/access.h"

#include <gtest/gtest.h>

namespace softib::hca {
namespace {

using enum AccessBits;

TEST(Access, WritingFromAfarNeedsWritingAtHome) {
  for (u32 bits = 0; bits < 1024; ++bits) {
    auto access = static_cast<AccessBits>(bits);
    bool bad = any(access & (remote_write | remote_atomic)) && !has(access, local_write);
    EXPECT_EQ(check_access(access).has_value(), !bad) << bits;
  }
}

TEST(Access, UnknownFlags) {
  EXPECT_TRUE(check_access(static_cast<AccessBits>(1U << 20))) << "relaxed ordering may be asked for anywhere";
  EXPECT_FALSE(check_access(static_cast<AccessBits>(1U << 10)));
  EXPECT_FALSE(check_access(static_cast<AccessBits>(1U << 31)));
}

TEST(Access, Ranges) {
  EXPECT_TRUE(check_range(none, 4096, 1, 0));
  EXPECT_FALSE(check_range(none, 4096, 0, 0)) << "empty";
  EXPECT_FALSE(check_range(none, ~0ULL, 2, 0)) << "wraps";
  EXPECT_FALSE(check_range(none, 4096, 2, ~0ULL)) << "iova wraps";
  EXPECT_FALSE(check_range(none, 1, ~0ULL, 0));
  EXPECT_TRUE(check_range(on_demand, 0, ~0ULL, 0)) << "the whole address space, on demand";
}

TEST(Access, KeysCarryIndexAndTag) {
  EXPECT_EQ(make_key(1, 0), 0x100U);
  EXPECT_EQ(make_key(0x1fffff, 0xff), 0x1fffffffU);
}

}  // namespace
}  // namespace softib::hca
