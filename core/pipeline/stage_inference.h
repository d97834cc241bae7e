// Runs an InferencePlan on one stage: its share of the forward and, on the last stage, the head and
// what the logits were wanted for.
#ifndef LOCKSTEP_CORE_PIPELINE_STAGE_INFERENCE_H_
#define LOCKSTEP_CORE_PIPELINE_STAGE_INFERENCE_H_

#include "absl/status/statusor.h"
#include "core/pipeline/stage_model.h"
#include "core/pipeline/step_plan.h"

namespace lockstep {

// On the last stage one result per logits row, elsewhere none.
absl::StatusOr<InferenceReport> RunInference(StageModel& stage, const InferencePlan& plan);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_STAGE_INFERENCE_H_
