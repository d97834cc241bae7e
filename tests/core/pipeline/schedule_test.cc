// Goal: the order of events on every stage, and the bubble that comes of it. Method: two schedules
// written out by hand; properties over all small stage and micro-batch counts; a simulation in
// which every event takes one unit and waits for its neighbours, which must neither stand still
// nor take another time than the formula says.
#include "core/pipeline/schedule.h"

#include <algorithm>
#include <optional>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

using Kind = ScheduleEvent::Kind;
using Events = std::vector<ScheduleEvent>;

constexpr int64_t kStagesMax = 4;
constexpr int64_t kMicroBatchesMax = 7;

ScheduleEvent F(int64_t micro_batch) { return {Kind::kForward, micro_batch}; }
ScheduleEvent B(int64_t micro_batch) { return {Kind::kBackward, micro_batch}; }

std::vector<Events> AllStages(ScheduleKind kind, int64_t stages, int64_t micro_batches) {
  std::vector<Events> all;
  for (int64_t stage = 0; stage < stages; ++stage) {
    all.push_back(Schedule(kind, stages, micro_batches, stage));
  }
  return all;
}

// Runs all stages side by side, one time unit an event. A forward waits for the stage before, a
// backward for the stage behind (on the last stage, for its own forward). The time when the last
// event ends; nothing when all stages wait.
std::optional<int64_t> Simulate(const std::vector<Events>& stages, int64_t micro_batches) {
  const int64_t count = static_cast<int64_t>(stages.size());
  const std::vector<int64_t> never(micro_batches, -1);
  std::vector<std::vector<int64_t>> forward_end(count, never);
  std::vector<std::vector<int64_t>> backward_end(count, never);
  std::vector<size_t> next(count, 0);
  std::vector<int64_t> free_at(count, 0);
  while (true) {
    bool moved = false;
    bool done = true;
    for (int64_t s = 0; s < count; ++s) {
      if (next[s] == stages[s].size()) continue;
      done = false;
      const ScheduleEvent& event = stages[s][next[s]];
      const int64_t m = event.micro_batch;
      int64_t ready = 0;
      if (event.kind == Kind::kForward) {
        if (s > 0) ready = forward_end[s - 1][m];
      } else {
        ready = s + 1 < count ? backward_end[s + 1][m] : forward_end[s][m];
        if (forward_end[s][m] < 0) ready = -1;
      }
      if (ready < 0) continue;
      const int64_t end = std::max(ready, free_at[s]) + 1;
      (event.kind == Kind::kForward ? forward_end : backward_end)[s][m] = end;
      free_at[s] = end;
      ++next[s];
      moved = true;
    }
    if (done) return *std::max_element(free_at.begin(), free_at.end());
    if (!moved) return std::nullopt;
  }
}

TEST(ScheduleTest, TwoStagesThreeMicroBatches) {
  const std::vector<Events> stages = AllStages(ScheduleKind::kOneForwardOneBackward, 2, 3);
  EXPECT_EQ(stages[0], (Events{F(0), F(1), B(0), F(2), B(1), B(2)}));
  EXPECT_EQ(stages[1], (Events{F(0), B(0), F(1), B(1), F(2), B(2)}));
}

TEST(ScheduleTest, FewerMicroBatchesThanStages) {
  const std::vector<Events> stages = AllStages(ScheduleKind::kOneForwardOneBackward, 4, 2);
  EXPECT_EQ(stages[0], (Events{F(0), F(1), B(0), B(1)}));
  EXPECT_EQ(stages[1], (Events{F(0), F(1), B(0), B(1)}));
  EXPECT_EQ(stages[2], (Events{F(0), F(1), B(0), B(1)}));
  EXPECT_EQ(stages[3], (Events{F(0), B(0), F(1), B(1)}));
}

class OneForwardOneBackwardTest : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {
 protected:
  const int64_t stage_count_ = std::get<0>(GetParam());
  const int64_t micro_batch_count_ = std::get<1>(GetParam());
  const std::vector<Events> stages_ =
      AllStages(ScheduleKind::kOneForwardOneBackward, stage_count_, micro_batch_count_);
};

TEST_P(OneForwardOneBackwardTest, EachMicroBatchGoesForwardThenBackwardInAscendingOrder) {
  for (const Events& events : stages_) {
    int64_t forwards = 0;
    int64_t backwards = 0;
    for (const ScheduleEvent& event : events) {
      EXPECT_EQ(event.micro_batch, event.kind == Kind::kForward ? forwards++ : backwards++);
      EXPECT_LE(backwards, forwards);
    }
    EXPECT_EQ(forwards, micro_batch_count_);
    EXPECT_EQ(backwards, micro_batch_count_);
  }
}

TEST_P(OneForwardOneBackwardTest, WarmsUpAlternatesAndCoolsDown) {
  for (int64_t s = 0; s < stage_count_; ++s) {
    const Events& events = stages_[s];
    const size_t warm_up = static_cast<size_t>(std::min(stage_count_ - s - 1, micro_batch_count_));
    ASSERT_EQ(events.size(), static_cast<size_t>(2 * micro_batch_count_));
    for (size_t i = 0; i < events.size(); ++i) {
      const bool in_warm_up = i < warm_up;
      const bool in_cool_down = i >= events.size() - warm_up;
      const Kind steady = (i - warm_up) % 2 == 0 ? Kind::kForward : Kind::kBackward;
      EXPECT_EQ(events[i].kind, in_warm_up     ? Kind::kForward
                                : in_cool_down ? Kind::kBackward
                                               : steady)
          << "stage " << s << ", event " << i;
    }
  }
}

TEST_P(OneForwardOneBackwardTest, HoldsActivationsOfAtMostStagesBehindIt) {
  for (int64_t s = 0; s < stage_count_; ++s) {
    int64_t live = 0;
    int64_t live_max = 0;
    for (const ScheduleEvent& event : stages_[s]) {
      live += event.kind == Kind::kForward ? 1 : -1;
      live_max = std::max(live_max, live);
    }
    EXPECT_EQ(live_max, std::min(stage_count_ - s, micro_batch_count_));
    EXPECT_EQ(live, 0);
  }
}

TEST_P(OneForwardOneBackwardTest, RunsToItsEndInTheTimeOfTheBubbleFormula) {
  const std::optional<int64_t> time = Simulate(stages_, micro_batch_count_);
  ASSERT_TRUE(time.has_value()) << "every stage waits for another";
  const double busy = static_cast<double>(2 * micro_batch_count_);
  const double bubble = micro_batch_count_ == 0 ? 0 : 1 - busy / static_cast<double>(*time);
  EXPECT_NEAR(BubbleFraction(stage_count_, micro_batch_count_), bubble, 1e-15);
}

INSTANTIATE_TEST_SUITE_P(AllSmall, OneForwardOneBackwardTest,
                         testing::Combine(testing::Range<int64_t>(1, kStagesMax + 1),
                                          testing::Range<int64_t>(0, kMicroBatchesMax + 1)));

// The simulation must be able to see a schedule that stands still, and a slow one.
TEST(ScheduleTest, SimulationFindsADeadlockAndALargerBubble) {
  std::vector<Events> stages = AllStages(ScheduleKind::kOneForwardOneBackward, 2, 3);
  stages[0] = {F(0), B(0), F(1), B(1), F(2), B(2)};
  const std::optional<int64_t> no_warm_up = Simulate(stages, 3);
  ASSERT_TRUE(no_warm_up.has_value());
  EXPECT_GT(*no_warm_up, 2 * (3 + 1));

  stages[0] = {F(0), B(1), F(1), B(0), F(2), B(2)};
  EXPECT_FALSE(Simulate(stages, 3).has_value());
}

TEST(ScheduleTest, ForwardOnlyRunsEveryMicroBatchOnceInOrder) {
  for (int64_t stages = 1; stages <= kStagesMax; ++stages) {
    for (const Events& events : AllStages(ScheduleKind::kForwardOnly, stages, 3)) {
      EXPECT_EQ(events, (Events{F(0), F(1), F(2)}));
    }
  }
  EXPECT_TRUE(Schedule(ScheduleKind::kForwardOnly, 2, 0, 1).empty());
}

TEST(ScheduleDeathTest, RefusesAStageThatIsNotThere) {
  EXPECT_DEATH(Schedule(ScheduleKind::kOneForwardOneBackward, 2, 1, 2), "stage 2 of 2");
}

}  // namespace
}  // namespace lockstep
