#include "hca/engine/large_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "hca/engine/copy.h"

namespace softib::hca {

namespace {

constexpr u64 mebibyte = u64{1} << 20;

struct Costs {
  u64 cached;
  u64 streaming;
  [[nodiscard]] u64 of(Stores stores) const { return stores == Stores::cached ? cached : streaming; }
};

// Copies of 1 MiB, each taking what `costs` says. How many of them streamed.
u32 streamed(StoreChoice& choice, u32 copies, const Costs& costs) {
  u32 count = 0;
  for (u32 i = 0; i < copies; ++i) {
    const auto [stores, timed] = choice.next();
    count += stores == Stores::streaming ? 1 : 0;
    if (timed) choice.learn(stores, mebibyte, costs.of(stores));
  }
  return count;
}

}  // namespace

TEST(StoreChoice, takes_what_is_quicker_and_tries_the_other_now_and_then) {
  StoreChoice choice;
  EXPECT_GT(streamed(choice, 1000, {100'000, 30'000}), 970U);
  StoreChoice other;
  const u32 tries = streamed(other, 10'000, {20'000, 30'000});
  EXPECT_GE(tries, 20U);
  EXPECT_LE(tries, 80U);
}

TEST(StoreChoice, follows_when_the_program_comes_to_something_else) {
  StoreChoice choice;
  static_cast<void>(streamed(choice, 100, {20'000, 30'000}));
  // At once, where what is in use becomes slow; by trying, where the other one becomes quick.
  EXPECT_GT(streamed(choice, 200, {400'000, 30'000}), 180U);
  static_cast<void>(streamed(choice, 8000, {20'000, 30'000}));
  EXPECT_LE(streamed(choice, 8000, {20'000, 30'000}), 64U);
}

TEST(StoreChoice, forgives_a_lost_processor) {
  StoreChoice choice;
  static_cast<void>(streamed(choice, 100, {20'000, 60'000}));
  choice.learn(Stores::cached, mebibyte, 20'000'000);
  EXPECT_LE(streamed(choice, 64, {20'000, 60'000}), 4U);
}

TEST(LargeCopy, copies_all_bytes_and_no_other_at_any_place) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<u8> source(300'000);
  std::generate(source.begin(), source.end(), [&] { return static_cast<u8>(random()); });
  for (int i = 0; i < 100; ++i) {
    std::vector<u8> target(source.size(), 0xee);
    const u64 length = i % 3 == 0 ? random() % 200 : random() % (target.size() - 400);
    const u64 to = random() % 200;
    const u64 from = random() % 200;
    if (i % 2 == 0)
      copy_with(i % 4 == 0 ? Stores::streaming : Stores::cached, target.data() + to, source.data() + from, length);
    else
      copy_message(target.data() + to, source.data() + from, length, i % 4 == 1 ? Target::own : Target::peer);
    const auto at = [](std::vector<u8>& bytes, u64 place) {
      return bytes.begin() + static_cast<std::ptrdiff_t>(place);
    };
    ASSERT_TRUE(std::equal(at(target, to), at(target, to + length), at(source, from))) << length;
    const auto is_untouched = [](u8 byte) { return byte == 0xee; };
    ASSERT_TRUE(std::all_of(target.begin(), at(target, to), is_untouched));
    ASSERT_TRUE(std::all_of(at(target, to + length), target.end(), is_untouched));
  }
}

}  // namespace softib::hca
