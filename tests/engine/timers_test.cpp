#include "hca/engine/timers.h"

#include <gtest/gtest.h>

namespace softib::hca {
namespace {

TEST(Timers, RnrTimersAreThoseOfTheTable) {
  EXPECT_EQ(rnr_timer_ns(1), 10'000U);
  EXPECT_EQ(rnr_timer_ns(0), 655'360'000U);
  EXPECT_EQ(rnr_timer_ns(31), 491'520'000U);
}

TEST(Timers, AckTimeoutZeroIsNone) {
  EXPECT_EQ(ack_timeout_ns(0), never);
  EXPECT_EQ(ack_timeout_ns(14), 67'108'864U);
}

TEST(Timers, TryingForEverWaitsTheTimerAndAnEighthMore) {
  for (u8 code : {0, 1, 12, 31}) {
    EXPECT_EQ(patient_rnr_ns(code, 0), rnr_timer_ns(code));
    EXPECT_EQ(patient_rnr_ns(code, 800), rnr_timer_ns(code) + 100);
    EXPECT_EQ(patient_rnr_ns(code, never), rnr_timer_ns(code) + 2'000'000);
  }
}

}  // namespace
}  // namespace softib::hca
