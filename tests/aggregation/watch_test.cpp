// Who is polled, who sleeps, and what wakes them.
#include "aggregation/watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>

namespace softib::aggregation {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class Bell final : public Watched {
 public:
  Bell() {
    int ends[2]{};
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    read_ = Fd(ends[0]);
    write_ = Fd(ends[1]);
  }

  bool turn(Time) override {
    ++turns;
    if (during) std::exchange(during, {})();
    return work != 0 && work-- != 0;
  }
  bool arm() override {
    ++arms;
    if (before_armed) std::exchange(before_armed, {})();
    return true;
  }
  [[nodiscard]] int descriptor() const override { return read_.get(); }
  void ring() const { ASSERT_EQ(::write(write_.get(), "!", 1), 1); }

  u32 work = 0;  // turns in which something moves
  u32 turns = 0;
  u32 arms = 0;
  std::function<void()> during;        // the next turn
  std::function<void()> before_armed;  // what comes in between

 private:
  Fd read_, write_;
};

class WatchTest : public testing::Test {
 protected:
  bool turn_after(microseconds passed) { return watch_.turn(now_ += passed); }

  Watch watch_;
  Watched::Time now_{std::chrono::hours(1)};
};

TEST_F(WatchTest, WhoIsStillSleepsAfterItsTimeOnly) {
  Bell job;
  watch_.add(job, microseconds(50));
  job.work = 1;
  EXPECT_TRUE(turn_after(microseconds(0)));
  EXPECT_FALSE(turn_after(microseconds(49)));
  EXPECT_FALSE(watch_.is_asleep());
  EXPECT_EQ(job.arms, 0U);
  EXPECT_FALSE(turn_after(microseconds(1)));
  EXPECT_TRUE(watch_.is_asleep());
  EXPECT_EQ(job.arms, 1U);
  const u32 turns = job.turns;
  EXPECT_FALSE(turn_after(microseconds(100)));
  EXPECT_EQ(job.turns, turns);  // it costs nothing
}

TEST_F(WatchTest, OnlyWhoIsRungForIsWoken) {
  Bell quiet, busy;
  watch_.add(quiet, {});
  watch_.add(busy, {});
  turn_after(microseconds(0));
  ASSERT_TRUE(watch_.is_asleep());
  quiet.turns = busy.turns = 0;
  busy.ring();
  watch_.wait(milliseconds(10'000));
  turn_after(microseconds(1));
  EXPECT_EQ(quiet.turns, 0U);
  EXPECT_NE(busy.turns, 0U);
}

TEST_F(WatchTest, WhatComesBeforeTheArmingIsNotSleptOver) {
  Bell job;
  watch_.add(job, {});
  job.before_armed = [&] { job.work = 1; };
  EXPECT_TRUE(turn_after(microseconds(0)));
  EXPECT_FALSE(watch_.is_asleep());
  EXPECT_FALSE(turn_after(microseconds(1)));
  EXPECT_TRUE(watch_.is_asleep());
}

TEST_F(WatchTest, NobodyLingersWhereProcessorsAreFew) {
  Bell job;
  watch_.add(job, milliseconds(50));
  watch_.set_lingers(false);
  EXPECT_FALSE(turn_after(microseconds(0)));
  EXPECT_TRUE(watch_.is_asleep());
}

TEST_F(WatchTest, ATurnMayWakeAndTakeAwayOthersAndItself) {
  Bell first, second, third;
  for (Bell* one : {&first, &second, &third}) watch_.add(*one, {});
  turn_after(microseconds(0));
  ASSERT_TRUE(watch_.is_asleep());
  watch_.wake(third);
  watch_.wake(first);
  first.during = [&] { watch_.wake(second); };
  second.turns = 0;
  third.during = [&] {
    watch_.remove(third);
    watch_.remove(first);
  };
  first.turns = 0;
  turn_after(microseconds(1));
  EXPECT_EQ(first.turns, 0U);  // taken away before its turn
  EXPECT_TRUE(watch_.is_asleep());
  first.ring();
  third.ring();
  watch_.wait(milliseconds(0));
  EXPECT_TRUE(watch_.is_asleep());
  watch_.add(first, {});
  turn_after(microseconds(1));
  EXPECT_NE(second.turns, 0U);  // woken in the middle of a round
}

TEST_F(WatchTest, SignalsEndTheWaitAndWakeNobody) {
  Bell job, signal;
  watch_.add_descriptor(signal.descriptor());
  watch_.add(job, {});
  turn_after(microseconds(0));
  signal.ring();
  watch_.wait(milliseconds(10'000));
  EXPECT_TRUE(watch_.is_asleep());
}

}  // namespace

}  // namespace softib::aggregation
