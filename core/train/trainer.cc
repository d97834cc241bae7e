#include "core/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/train/micro_batches.h"
#include "core/train/train_metrics.h"
#include "kernels/host_math.h"

namespace lockstep {
namespace {

const char* Name(LossAggMode mode) {
  return mode == LossAggMode::kTokenSum ? "token-sum" : "token-mean";
}

// What identifies a call's payload: everything that its answer is a function of, but for its id.
Sha256Digest Fingerprint(const char* kind, const std::vector<Datum>* data, const LossConfig* loss,
                         LossAggMode agg_mode, const AdamWParams* adamw) {
  Sha256 hash;
  hash.Update(kind);
  if (data != nullptr) {
    for (const Datum& datum : *data) Update(hash, datum);
    Update(hash, *loss);
    hash.Update(Name(agg_mode));
  }
  if (adamw != nullptr) Update(hash, *adamw);
  return hash.Finish();
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, const ModelConfig& config,
                 const OptimizerReport& digests, Pipeline* pipeline, WeightVersions* versions,
                 const Clock* clock)
    : options_(options),
      config_(config),
      pipeline_(pipeline),
      versions_(versions),
      clock_(clock),
      ledger_(options.stored_answers_max),
      weights_digest_(DigestHex(digests.weights_digest)),
      moments_digest_(DigestHex(digests.moments_digest)) {}

absl::StatusOr<ForwardBackwardResult> Trainer::ForwardBackward(
    const ForwardBackwardRequest& request) {
  const Sha256Digest fingerprint =
      Fingerprint("ForwardBackward", &request.data, &request.loss, request.agg_mode, nullptr);
  LOCKSTEP_ASSIGN_OR_RETURN(const StoredAnswer* stored, ledger_.Find(request.call, fingerprint));
  if (stored != nullptr) return std::get<ForwardBackwardResult>(*stored);
  LOCKSTEP_RETURN_IF_ERROR(CheckStepBelongsTo(request.call));

  LOCKSTEP_ASSIGN_OR_RETURN(
      Accumulated accumulated,
      Accumulate(request.data, request.loss, request.agg_mode, request.micro_batch_size));
  step_run_id_ = request.call.run_id;
  ForwardBackwardResult result;
  result.logprobs = std::move(accumulated.logprobs);
  result.metrics = accumulated.metrics;
  result.weights = versions_->current();
  ledger_.Record(request.call, fingerprint, result);
  return result;
}

absl::StatusOr<OptimStepResult> Trainer::OptimStep(const OptimStepRequest& request) {
  const Sha256Digest fingerprint =
      Fingerprint("OptimStep", nullptr, nullptr, LossAggMode::kTokenSum, &request.adamw);
  LOCKSTEP_ASSIGN_OR_RETURN(const StoredAnswer* stored, ledger_.Find(request.call, fingerprint));
  if (stored != nullptr) return std::get<OptimStepResult>(*stored);
  LOCKSTEP_RETURN_IF_ERROR(CheckStepBelongsTo(request.call));
  if (step_.data.empty()) {
    return absl::FailedPreconditionError("no gradients: OptimStep needs a ForwardBackward before");
  }

  OptimStepResult result;
  LOCKSTEP_ASSIGN_OR_RETURN(result.metrics, ApplyStep(request.adamw));
  result.weights = versions_->current();
  ledger_.Record(request.call, fingerprint, result);
  return result;
}

absl::StatusOr<TrainStepResult> Trainer::TrainStep(const TrainStepRequest& request) {
  const Sha256Digest fingerprint =
      Fingerprint("TrainStep", &request.data, &request.loss, request.agg_mode, &request.adamw);
  LOCKSTEP_ASSIGN_OR_RETURN(const StoredAnswer* stored, ledger_.Find(request.call, fingerprint));
  if (stored != nullptr) return std::get<TrainStepResult>(*stored);
  if (!step_.data.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run ", step_run_id_, " has gradients of an unfinished step: OptimStep first"));
  }

  LOCKSTEP_ASSIGN_OR_RETURN(
      Accumulated accumulated,
      Accumulate(request.data, request.loss, request.agg_mode, request.micro_batch_size));
  TrainStepResult result;
  result.logprobs = std::move(accumulated.logprobs);
  result.metrics = accumulated.metrics;
  LOCKSTEP_ASSIGN_OR_RETURN(result.optim, ApplyStep(request.adamw));
  result.weights = versions_->current();
  ledger_.Record(request.call, fingerprint, result);
  return result;
}

absl::StatusOr<std::vector<std::vector<float>>> Trainer::TrainingForward(
    const std::vector<Datum>& data, int64_t micro_batch_size, uint64_t weight_version) {
  TrainingPlan plan;
  plan.weight_version = weight_version;
  plan.schedule = ScheduleKind::kForwardOnly;
  plan.micro_batches = MakeMicroBatches(data, micro_batch_size, options_.page_size);
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainingReport report, pipeline_->Train(std::move(plan)));
  std::vector<std::vector<float>> logprobs;
  for (const DatumOutputs& outputs : SplitByDatum(data, report.micro_batches)) {
    logprobs.emplace_back(outputs.logprob.begin(), outputs.logprob.end());
  }
  return logprobs;
}

absl::Status Trainer::CheckStepBelongsTo(const CallId& call) const {
  if (step_.data.empty() || step_run_id_ == call.run_id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("run ", step_run_id_, " has gradients of an unfinished step"));
}

absl::StatusOr<Trainer::Accumulated> Trainer::Accumulate(const std::vector<Datum>& data,
                                                         const LossConfig& loss,
                                                         LossAggMode agg_mode,
                                                         int64_t micro_batch_size) {
  if (!step_.data.empty() && step_.agg_mode != agg_mode) {
    return absl::InvalidArgumentError(absl::StrCat(
        "loss_agg_mode: ", Name(agg_mode), " in a step that began with ", Name(step_.agg_mode)));
  }
  const absl::Time start = clock_->Now();
  TrainingPlan plan;
  plan.weight_version = versions_->current().weight_version;
  plan.loss = loss;
  plan.micro_batches =
      MakeMicroBatches(data, micro_batch_size > 0 ? micro_batch_size : options_.micro_batch_size,
                       options_.page_size);
  const int64_t micro_batch_count = static_cast<int64_t>(plan.micro_batches.size());
  LOCKSTEP_ASSIGN_OR_RETURN(const TrainingReport report, pipeline_->Train(std::move(plan)));

  Accumulated accumulated;
  const std::vector<DatumOutputs> outputs = SplitByDatum(data, report.micro_batches);
  for (const DatumOutputs& datum : outputs) {
    accumulated.logprobs.emplace_back(datum.logprob.begin(), datum.logprob.end());
  }
  accumulated.metrics = ComputeMetrics(data, outputs, agg_mode, versions_->current());
  int64_t rows = 0;
  for (const Datum& datum : data) rows += datum.length();
  const double seconds = absl::ToDoubleSeconds(clock_->Now() - start);
  if (seconds > 0) accumulated.metrics.tokens_per_second = static_cast<double>(rows) / seconds;
  accumulated.metrics.bubble_fraction = BubbleFraction(pipeline_->stage_count(), micro_batch_count);

  step_.agg_mode = agg_mode;
  for (const Datum& datum : data) step_.data.push_back({datum, loss});
  return accumulated;
}

absl::StatusOr<OptimMetrics> Trainer::ApplyStep(const AdamWParams& adamw) {
  OptimMetrics metrics;
  if (step_.agg_mode == LossAggMode::kTokenMean) {
    int64_t tokens = 0;
    for (const CanonicalDatum& datum : step_.data) tokens += CountTokens({&datum.datum, 1});
    metrics.loss_denominator = static_cast<double>(std::max<int64_t>(tokens, 1));
  }

  LOCKSTEP_ASSIGN_OR_RETURN(const SumsOfSquares sums, pipeline_->GradientNorm());
  double total = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    total += sums[i];
    if (!std::isfinite(total) && metrics.non_finite_tensor.empty()) {
      metrics.skipped = true;
      metrics.non_finite_tensor = ModelParams(config_)[i].name;
    }
  }
  metrics.grad_norm = std::sqrt(total) / metrics.loss_denominator;

  OptimizerPlan plan;
  plan.skip = metrics.skipped;
  step_.adamw = adamw;
  WeightsState next = versions_->current();
  if (!plan.skip) {
    ++steps_applied_;
    const bool clip = adamw.grad_clip_norm > 0 && metrics.grad_norm > adamw.grad_clip_norm;
    const double coefficient = clip ? adamw.grad_clip_norm / metrics.grad_norm : 1.0;
    plan.scalars = Scalars(adamw, coefficient / metrics.loss_denominator);
    next.state_id = NextStateId(next.state_id, step_, next.numerics_id);
    plan.new_version = ++next.weight_version;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const OptimizerReport report, pipeline_->Optimize(plan));
  weights_digest_ = DigestHex(report.weights_digest);
  moments_digest_ = DigestHex(report.moments_digest);
  if (!plan.skip) versions_->Advance(std::move(next));
  step_ = {};
  step_run_id_.clear();
  return metrics;
}

kernels::AdamWScalars Trainer::Scalars(const AdamWParams& adamw, double gradient_scale) const {
  const double t = static_cast<double>(steps_applied_);
  const double beta1 = adamw.beta1;
  const double beta2 = adamw.beta2;
  kernels::AdamWScalars scalars;
  scalars.gradient_scale = static_cast<float>(gradient_scale);
  scalars.learning_rate = adamw.learning_rate;
  scalars.beta1 = adamw.beta1;
  scalars.one_minus_beta1 = static_cast<float>(1 - beta1);
  scalars.beta2 = adamw.beta2;
  scalars.one_minus_beta2 = static_cast<float>(1 - beta2);
  scalars.inverse_correction1 = static_cast<float>(1 / (1 - kernels::host::Pow(beta1, t)));
  scalars.inverse_correction2 = static_cast<float>(1 / (1 - kernels::host::Pow(beta2, t)));
  scalars.epsilon = adamw.epsilon;
  scalars.decay = static_cast<float>(static_cast<double>(adamw.learning_rate) * adamw.weight_decay);
  return scalars;
}

}  // namespace lockstep
