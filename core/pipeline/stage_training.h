// Runs the training plans on one stage: forwards and backwards in the order of the schedule, and
// the two halves of an optimizer step.
#ifndef LOCKSTEP_CORE_PIPELINE_STAGE_TRAINING_H_
#define LOCKSTEP_CORE_PIPELINE_STAGE_TRAINING_H_

#include "absl/status/statusor.h"
#include "core/pipeline/stage_model.h"
#include "core/pipeline/step_plan.h"

namespace lockstep {

// Adds the gradients of the plan's data to the stage's accumulators (none under kForwardOnly). On
// the last stage the report holds the outputs of every micro-batch, elsewhere nothing.
absl::StatusOr<TrainingReport> RunTraining(StageModel& stage, const TrainingPlan& plan);

// Combines the two gradients of a tied embedding and takes the norm's sums.
absl::StatusOr<GradientNormReport> RunGradientNorm(StageModel& stage, const GradientNormPlan& plan);

OptimizerReport RunOptimizer(StageModel& stage, const OptimizerPlan& plan);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_STAGE_TRAINING_H_
