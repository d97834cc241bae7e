// Applies training calls to the pipeline: accumulates gradients of one step over any number of
// calls, takes the step, and gives the new weights their name. A call is idempotent by its id.
//
// Belongs to the engine loop's thread; every call blocks it until the pipeline is done. Not
// synchronised.
#ifndef LOCKSTEP_CORE_TRAIN_TRAINER_H_
#define LOCKSTEP_CORE_TRAIN_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/weight_versions.h"
#include "core/request/train_request.h"
#include "core/train/canonical_step.h"
#include "core/train/run_ledger.h"

namespace lockstep {

struct TrainerOptions {
  int64_t micro_batch_size = 8;  // where a call names none
  int64_t page_size = 16;        // of the stages' KV pages
  int64_t stored_answers_max = 64;
};

class Trainer {
 public:
  // All but `options` and `digests`, those of the weights as they are, are borrowed.
  Trainer(const TrainerOptions& options, const ModelConfig& config, const OptimizerReport& digests,
          Pipeline* pipeline, WeightVersions* versions, const Clock* clock);

  // REQUIRES: validated requests. Errors change nothing and consume no seq_id; UNAVAILABLE when the
  // pipeline is down.
  absl::StatusOr<ForwardBackwardResult> ForwardBackward(const ForwardBackwardRequest& request);
  absl::StatusOr<OptimStepResult> OptimStep(const OptimStepRequest& request);
  absl::StatusOr<TrainStepResult> TrainStep(const TrainStepRequest& request);

  // The training forward alone, under any weights that are held: log-probs per datum.
  absl::StatusOr<std::vector<std::vector<float>>> TrainingForward(const std::vector<Datum>& data,
                                                                  int64_t micro_batch_size,
                                                                  uint64_t weight_version);

  // Of masters and moments as they are; 32 hexadecimal digits.
  const std::string& weights_digest() const { return weights_digest_; }
  const std::string& moments_digest() const { return moments_digest_; }

 private:
  struct Accumulated {
    std::vector<std::vector<float>> logprobs;
    TrainMetrics metrics;
  };

  // Runs `data` and adds it to the step under way.
  absl::StatusOr<Accumulated> Accumulate(const std::vector<Datum>& data, const LossConfig& loss,
                                         LossAggMode agg_mode, int64_t micro_batch_size);
  // Ends the step under way.
  absl::StatusOr<OptimMetrics> ApplyStep(const AdamWParams& adamw);
  kernels::AdamWScalars Scalars(const AdamWParams& adamw, double gradient_scale) const;
  absl::Status CheckStepBelongsTo(const CallId& call) const;

  const TrainerOptions options_;
  const ModelConfig& config_;
  Pipeline* const pipeline_;
  WeightVersions* const versions_;
  const Clock* const clock_;

  RunLedger ledger_;
  CanonicalStep step_;         // under way; no data: none is
  std::string step_run_id_;    // whose it is
  int64_t steps_applied_ = 0;  // t of AdamW
  std::string weights_digest_;
  std::string moments_digest_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_TRAIN_TRAINER_H_
