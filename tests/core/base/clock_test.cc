// Goal: the fake clock moves only when told, and the real one follows the machine's.
#include "core/base/clock.h"

#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace lockstep {
namespace {

TEST(ClockTest, FakeClockMovesWhenTold) {
  FakeClock clock(absl::UnixEpoch());
  EXPECT_EQ(clock.Now(), absl::UnixEpoch());
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(3));
}

TEST(ClockTest, RealClockLiesBetweenTwoReadings) {
  const absl::Time before = absl::Now();
  const absl::Time now = RealClock().Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, absl::Now());
}

}  // namespace
}  // namespace lockstep
