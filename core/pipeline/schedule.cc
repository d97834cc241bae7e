#include "core/pipeline/schedule.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {

std::vector<ScheduleEvent> Schedule(ScheduleKind kind, int64_t stage_count,
                                    int64_t micro_batch_count, int64_t stage) {
  LOCKSTEP_CHECK(stage >= 0 && stage < stage_count) << "stage " << stage << " of " << stage_count;
  LOCKSTEP_CHECK_GE(micro_batch_count, 0);
  using Kind = ScheduleEvent::Kind;

  std::vector<ScheduleEvent> events;
  if (kind == ScheduleKind::kForwardOnly) {
    for (int64_t i = 0; i < micro_batch_count; ++i) events.push_back({Kind::kForward, i});
    return events;
  }
  const int64_t warm_up = std::min(stage_count - stage - 1, micro_batch_count);
  for (int64_t i = 0; i < warm_up; ++i) events.push_back({Kind::kForward, i});
  for (int64_t i = warm_up; i < micro_batch_count; ++i) {
    events.push_back({Kind::kForward, i});
    events.push_back({Kind::kBackward, i - warm_up});
  }
  for (int64_t i = micro_batch_count - warm_up; i < micro_batch_count; ++i) {
    events.push_back({Kind::kBackward, i});
  }
  return events;
}

double BubbleFraction(int64_t stage_count, int64_t micro_batch_count) {
  if (micro_batch_count == 0) return 0;
  return static_cast<double>(stage_count - 1) /
         static_cast<double>(micro_batch_count + stage_count - 1);
}

}  // namespace lockstep
