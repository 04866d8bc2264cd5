#include "ipoib/neighbours.h"
#include "texts.h"

#include <gtest/gtest.h>

namespace softib::ipoib {
namespace {

HardwareAddress neighbour(u32 qpn) { return {0, qpn, {0xfe, 0x80}}; }
Held packet(u8 number) { return {{}, {number}}; }

class NeighboursTest : public ::testing::Test {
 protected:
  const HardwareAddress* use(const char* text) {
    outcome_ = {};
    return neighbours_.use(ip(text), now_, outcome_);
  }
  void pass(milliseconds time) {
    now_ += time;
    outcome_ = neighbours_.tick(now_);
  }

  Neighbours neighbours_;
  Time now_{};
  Neighbours::Outcome outcome_;
};

TEST_F(NeighboursTest, PacketsWaitForTheAnswerAndTheOldestGivesWay) {
  EXPECT_EQ(use("10.0.0.2"), nullptr);
  ASSERT_EQ(outcome_.questions.size(), 1U);
  EXPECT_FALSE(outcome_.questions[0].hardware);
  for (u8 i = 0; i < 5; ++i) neighbours_.hold(ip("10.0.0.2"), packet(i));
  EXPECT_EQ(use("10.0.0.2"), nullptr);
  EXPECT_TRUE(outcome_.questions.empty());  // asked already
  const auto waiting = neighbours_.learn(ip("10.0.0.2"), neighbour(5), true, false, now_);
  ASSERT_EQ(waiting.size(), most_waiting);
  EXPECT_EQ(waiting[0].packet[0], 2);
  ASSERT_NE(use("10.0.0.2"), nullptr);
  EXPECT_EQ(use("10.0.0.2")->qpn, 5U);
  EXPECT_FALSE(neighbours_.asking());
}

TEST_F(NeighboursTest, AfterThreeTriesPacketsComeBack) {
  EXPECT_EQ(use("10.0.0.2"), nullptr);
  neighbours_.hold(ip("10.0.0.2"), packet(1));
  for (u32 i = 1; i < Neighbours::most_tries; ++i) {
    pass(Neighbours::between_tries);
    EXPECT_EQ(outcome_.questions.size(), 1U);
    EXPECT_TRUE(outcome_.undeliverable.empty());
  }
  pass(Neighbours::between_tries);
  EXPECT_EQ(outcome_.undeliverable.size(), 1U);
  EXPECT_EQ(neighbours_.size(), 0U);
  EXPECT_FALSE(neighbours_.asking());
}

TEST_F(NeighboursTest, WhatIsOldIsAskedAloneWhileItIsUsed) {
  EXPECT_TRUE(neighbours_.learn(ip("10.0.0.2"), neighbour(5), true, true, now_).empty());
  now_ += Neighbours::believed_for;
  ASSERT_NE(use("10.0.0.2"), nullptr);
  ASSERT_EQ(outcome_.questions.size(), 1U);
  EXPECT_EQ(outcome_.questions[0].hardware->qpn, 5U);
  EXPECT_TRUE(neighbours_.asking());
  EXPECT_TRUE(neighbours_.learn(ip("10.0.0.2"), neighbour(5), true, false, now_).empty());
  EXPECT_FALSE(neighbours_.asking());

  now_ += Neighbours::believed_for;
  ASSERT_NE(use("10.0.0.2"), nullptr);
  for (u32 i = 0; i < Neighbours::most_tries; ++i) pass(Neighbours::between_tries);
  ASSERT_EQ(outcome_.silent.size(), 1U);
  EXPECT_EQ(neighbours_.size(), 0U);
}

TEST_F(NeighboursTest, OnlyWhoIsWantedMakesAnEntry) {
  EXPECT_TRUE(neighbours_.learn(ip("10.0.0.2"), neighbour(5), true, false, now_).empty());
  EXPECT_EQ(neighbours_.size(), 0U);
  EXPECT_TRUE(neighbours_.learn(ip("10.0.0.2"), neighbour(5), true, true, now_).empty());
  EXPECT_EQ(neighbours_.size(), 1U);
  EXPECT_FALSE(neighbours_.asking());
}

TEST_F(NeighboursTest, AnAnswerThatMustNotOverrideDoesNot) {
  EXPECT_TRUE(neighbours_.learn(ip("fd00::2"), neighbour(5), true, true, now_).empty());
  EXPECT_TRUE(neighbours_.learn(ip("fd00::2"), neighbour(6), false, false, now_).empty());
  EXPECT_EQ(use("fd00::2")->qpn, 5U);
  EXPECT_TRUE(neighbours_.learn(ip("fd00::2"), neighbour(6), true, false, now_).empty());
  EXPECT_EQ(use("fd00::2")->qpn, 6U);
}

TEST_F(NeighboursTest, TheTableHasAnEnd) {
  for (u32 i = 0; i < Neighbours::most + 10; ++i) {
    const u8 bytes[4] = {10, static_cast<u8>(i >> 16), static_cast<u8>(i >> 8), static_cast<u8>(i)};
    EXPECT_TRUE(neighbours_.learn(make_ip(Family::v4, bytes), neighbour(i), true, true, now_).empty());
  }
  EXPECT_EQ(neighbours_.size(), Neighbours::most);
  pass(Neighbours::kept_unused + milliseconds(1));
  EXPECT_EQ(neighbours_.size(), 0U);
}

}  // namespace
}  // namespace softib::ipoib
