// The messages that stages receive and send: plain values, no closures and no shared pointers, so
// that a stage can live in another process without change. The driver (Pipeline) makes plans,
// stages execute them in the order they arrive, all stages in the same order.
#ifndef LOCKSTEP_CORE_PIPELINE_STEP_PLAN_H_
#define LOCKSTEP_CORE_PIPELINE_STEP_PLAN_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/device/buffer.h"
#include "core/model/non_finite.h"
#include "core/model/sampler.h"
#include "core/model/token_batch.h"
#include "core/model/token_loss.h"
#include "core/pipeline/schedule.h"
#include "core/request/train_request.h"
#include "kernels/shapes.h"

namespace lockstep {

// A row whose logits are wanted, and what for.
struct LogitsRow {
  enum class Kind { kSample, kScore };
  Kind kind = Kind::kSample;
  int32_t row = 0;
  SamplingParams sampling;
  DrawKey draw;         // kSample
  int32_t target = -1;  // kScore: the token whose log-prob is wanted
};

// One micro-batch of inference: prefill chunks, decode rows and rows to score, side by side, all
// under the same weights.
struct InferencePlan {
  uint64_t id = 0;
  uint64_t weight_version = 0;
  TokenBatch batch;
  std::vector<LogitsRow> logits_rows;
};

// One micro-batch of training: whole data, packed without padding, in canonical order.
struct TrainingMicroBatch {
  TokenBatch batch;                   // every sequence from position 0
  std::vector<int64_t> datum_begins;  // first row of each datum, and the total
  TokenLossInputs loss_inputs;        // [M]; on the last stage
};

struct TrainingPlan {
  uint64_t id = 0;
  uint64_t weight_version = 0;
  ScheduleKind schedule = ScheduleKind::kOneForwardOneBackward;
  LossConfig loss;
  std::vector<TrainingMicroBatch> micro_batches;
};

// First half of an optimizer step: tied gradients are combined, norms are taken.
struct GradientNormPlan {
  uint64_t id = 0;
};

// Second half: AdamW, and compute weights of the next version beside the old ones. Or, when `skip`
// is set because a gradient was not finite, nothing. Gradients are zeroed either way.
struct OptimizerPlan {
  uint64_t id = 0;
  bool skip = false;
  kernels::AdamWScalars scalars;
  uint64_t new_version = 0;
};

// Drops the compute weights of a version that nobody uses any more.
struct ReleaseWeightsPlan {
  uint64_t version = 0;
};

// Asks for a copy of one master tensor; the stage that has it answers (the first of two).
struct ReadTensorPlan {
  uint64_t id = 0;
  std::string name;
};

using StagePlan = std::variant<InferencePlan, TrainingPlan, GradientNormPlan, OptimizerPlan,
                               ReleaseWeightsPlan, ReadTensorPlan>;

// Answers. Inference is answered by the last stage and, before that, by a stage whose rows stopped
// being finite; a tensor by its holder; the others by every stage.
struct LogitsResult {
  int32_t token = -1;  // drawn (kSample) or the target (kScore)
  float logprob = 0;
  float raw_logprob = 0;
  float entropy = 0;  // kScore
};

struct InferenceReport {
  // From the last stage, one per LogitsRow; of a row that is not finite it means nothing.
  std::vector<LogitsResult> results;
  NonFiniteRows non_finite;  // that this stage met, whether wanted or not
};
struct TrainingReport {
  std::vector<TokenLossOutputs> micro_batches;  // from the last stage; empty from others
};
struct GradientNormReport {
  std::vector<int64_t> canonical_begins;  // of the stage's tensors
  std::vector<double> sums_of_squares;
};
struct OptimizerReport {
  kernels::Digest128 weights_digest;
  kernels::Digest128 moments_digest;
};
struct ReadTensorReport {
  Buffer<float> values;
};

struct StageReport {
  uint64_t id = 0;
  int stage = 0;
  absl::Status status;  // an error ends the pipeline: it must not happen
  std::variant<std::monostate, InferenceReport, TrainingReport, GradientNormReport, OptimizerReport,
               ReadTensorReport>
      body;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_STEP_PLAN_H_
