#include "core/pipeline/stage_inference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/types/span.h"
#include "core/base/status_macros.h"

namespace lockstep {
namespace {

// The part that a row ended in whose logits are not finite, when no norm of a layer met it.
ModelPlace LastPart(const StageModel& stage, absl::Span<const float> hidden) {
  const bool head =
      std::all_of(hidden.begin(), hidden.end(), [](float x) { return std::isfinite(x); });
  if (head) return {ModelPlace::Part::kHead};
  return {ModelPlace::Part::kMlp, stage.context().range.layer_end - 1};
}

// Fills token and log-probs; false: the logits are not finite.
bool Sample(StageModel& stage, const float* logits, const LogitsRow& row, LogitsResult* result) {
  const SampledToken sampled =
      stage.sampler().Sample(logits, stage.config().vocab_size, row.sampling, row.draw);
  result->token = sampled.token;
  result->logprob = sampled.logprob;
  result->raw_logprob = sampled.raw_logprob;
  return sampled.finite;
}

bool Score(StageModel& stage, const float* logits, const LogitsRow& row, LogitsResult* result) {
  const int64_t v = stage.config().vocab_size;
  const float one = 1;
  float raw_log_sum_exp;
  float log_sum_exp;
  result->token = row.target;
  stage.kernels().LogProb(stage.parallel(), logits, 1, v, &one, &row.target, &raw_log_sum_exp,
                          &result->raw_logprob, nullptr);
  stage.kernels().LogProb(stage.parallel(), logits, 1, v, &row.sampling.temperature, &row.target,
                          &log_sum_exp, &result->logprob, &result->entropy);
  return std::isfinite(log_sum_exp);
}

}  // namespace

absl::Status RunInference(StageModel& stage, const InferencePlan& plan,
                          absl::FunctionRef<void(InferenceReport)> report) {
  const int64_t rows = plan.batch.row_count();
  LOCKSTEP_ASSIGN_OR_RETURN(const WeightView weights, stage.Weights(plan.weight_version));
  LOCKSTEP_ASSIGN_OR_RETURN(Buffer<float> hidden, stage.ReceiveHidden(plan.id, rows));
  NonFiniteRows non_finite =
      Forward(stage.context(), weights, plan.batch, stage.kv(), stage.scratch(), hidden.data());

  if (!stage.context().range.last) {
    if (!non_finite.empty()) report({.results = {}, .non_finite = std::move(non_finite)});
    return stage.SendHidden(plan.id, rows, std::move(hidden));
  }
  InferenceReport answer;
  const ModelConfig& config = stage.config();
  std::vector<int32_t> wanted;
  for (const LogitsRow& row : plan.logits_rows) wanted.push_back(row.row);
  const auto consume = [&](int64_t first, int64_t count, float* logits) {
    for (int64_t i = 0; i < count; ++i) {
      const LogitsRow& row = plan.logits_rows[first + i];
      const float* row_logits = logits + i * config.vocab_size;
      LogitsResult& result = answer.results.emplace_back();
      result.row = row.row;
      const bool finite = row.kind == LogitsRow::Kind::kSample
                              ? Sample(stage, row_logits, row, &result)
                              : Score(stage, row_logits, row, &result);
      if (finite) continue;
      const float* row_hidden = hidden.data() + row.row * config.hidden_size;
      non_finite.emplace(row.row,
                         LastPart(stage, {row_hidden, static_cast<size_t>(config.hidden_size)}));
    }
  };
  stage.head().Logits(weights, hidden.data(), wanted, consume);
  answer.non_finite = std::move(non_finite);
  report(std::move(answer));
  return absl::OkStatus();
}

}  // namespace lockstep
