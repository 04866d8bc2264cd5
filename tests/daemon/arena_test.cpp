#include "daemon/arena.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <vector>

namespace softib::daemon {
namespace {

constexpr u64 page = Arena::page;

// The obvious allocator: a map of pages, searched from the start.
class Model {
 public:
  explicit Model(size_t pages) : taken_(pages, false) { taken_[0] = true; }

  // 0: no room.
  u64 allocate(u64 pages) {
    for (u64 first = 1; first + pages <= taken_.size(); ++first) {
      u64 run = 0;
      while (run < pages && !taken_[first + run]) ++run;
      if (run < pages) continue;
      mark(first, pages, true);
      return first * page;
    }
    return 0;
  }

  void free(u64 offset, u64 pages) { mark(offset / page, pages, false); }

 private:
  void mark(u64 first, u64 pages, bool value) {
    for (u64 i = first; i < first + pages; ++i) taken_[i] = value;
  }
  std::vector<bool> taken_;
};

TEST(Arena, BehavesAsTheObviousAllocator) {
  EXPECT_TRUE(rc::check([] {
    constexpr u64 pages = 200;
    std::map<u64, u64> returned;
    Arena arena(pages * page, [&](u64 offset, u64 bytes) { returned[offset] += bytes; });
    Model model(pages);
    std::vector<std::pair<u64, u64>> held;
    u64 used = 0;
    for (u32 step : *rc::gen::container<std::vector<u32>>(120, rc::gen::arbitrary<u32>())) {
      if (step % 3 == 0 && !held.empty()) {
        auto [offset, size] = held[step / 3 % held.size()];
        held.erase(held.begin() + static_cast<long>(step / 3 % held.size()));
        RC_ASSERT(arena.bytes_at(offset) == size * page);
        RC_ASSERT(arena.free(offset).has_value());
        RC_ASSERT(returned[offset] == size * page);
        returned.clear();
        model.free(offset, size);
        used -= size;
      } else {
        u64 size = 1 + step / 3 % 70;
        u64 expected = model.allocate(size);
        auto got = arena.allocate(size * page - step % page);
        RC_ASSERT(got.has_value() == (expected != 0));
        if (!got) continue;
        RC_ASSERT(*got == expected);
        held.emplace_back(*got, size);
        used += size;
      }
      RC_ASSERT(arena.used_bytes() == used * page);
    }
  }));
}

TEST(Arena, NeverGivesOffsetZero) {
  Arena arena(3 * page, {});
  EXPECT_EQ(*arena.allocate(1), page);
  EXPECT_EQ(*arena.allocate(page), 2 * page);
  EXPECT_FALSE(arena.allocate(1));
}

TEST(Arena, RefusesWhatItDidNotGive) {
  Arena arena(64 * page, {});
  u64 run = *arena.allocate(4 * page);
  EXPECT_FALSE(arena.free(0));
  EXPECT_FALSE(arena.free(run + page));
  EXPECT_FALSE(arena.free(run + 1));
  EXPECT_TRUE(arena.free(run));
  EXPECT_FALSE(arena.free(run)) << "twice";
  EXPECT_FALSE(arena.allocate(0));
  EXPECT_FALSE(arena.allocate(~0ULL));
  EXPECT_EQ(arena.used_bytes(), 0U);
}

}  // namespace
}  // namespace softib::daemon
