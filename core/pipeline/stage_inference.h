// Runs an InferencePlan on one stage: its share of the forward and, on the last stage, the head and
// what the logits were wanted for.
#ifndef LOCKSTEP_CORE_PIPELINE_STAGE_INFERENCE_H_
#define LOCKSTEP_CORE_PIPELINE_STAGE_INFERENCE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/pipeline/stage_model.h"
#include "core/pipeline/step_plan.h"

namespace lockstep {

// Calls `report` on the last stage, and elsewhere when rows stopped being finite: before they go on
// to the next stage, so that the driver knows of them when the last one answers.
absl::Status RunInference(StageModel& stage, const InferencePlan& plan,
                          absl::FunctionRef<void(InferenceReport)> report);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_STAGE_INFERENCE_H_
