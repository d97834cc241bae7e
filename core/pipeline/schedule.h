// What a pipeline stage does in which order during a training step: a pure function.
#ifndef LOCKSTEP_CORE_PIPELINE_SCHEDULE_H_
#define LOCKSTEP_CORE_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace lockstep {

enum class ScheduleKind {
  // One forward, one backward (PipeDream-Flush; Narayanan et al. 2021, section 2.2): stage s runs
  // min(S - s - 1, m) warm-up forwards, then alternates, then drains its backwards. At most S - s
  // micro-batches hold activations at one time.
  kOneForwardOneBackward,
  // Forwards alone: scoring under the training path.
  kForwardOnly,
};

struct ScheduleEvent {
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;
  int64_t micro_batch = 0;

  bool operator==(const ScheduleEvent&) const = default;
};

// The events of `stage`, in order. Forwards and backwards each run in ascending micro-batch order,
// whatever the stage count: the order that gradients are summed in never moves.
// REQUIRES: 0 <= stage < stage_count, micro_batch_count >= 0.
std::vector<ScheduleEvent> Schedule(ScheduleKind kind, int64_t stage_count,
                                    int64_t micro_batch_count, int64_t stage);

// Share of stage time spent waiting when every forward and every backward takes the same time on
// every stage: (S - 1) / (m + S - 1), Narayanan et al. 2021, section 2.2. 0 for no micro-batches.
double BubbleFraction(int64_t stage_count, int64_t micro_batch_count);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_SCHEDULE_H_
