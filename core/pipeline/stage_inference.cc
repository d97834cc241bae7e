#include "core/pipeline/stage_inference.h"

#include <cmath>
#include <utility>

#include "core/base/status_macros.h"

namespace lockstep {
namespace {

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
      const bool finite = row.kind == LogitsRow::Kind::kSample
                              ? Sample(stage, row_logits, row, &result)
                              : Score(stage, row_logits, row, &result);
      // What the final norm met, the last layer made.
      if (!(stage.head().inverse_rms(i) > 0)) {
        non_finite.emplace(row.row, ModelPlace{ModelPlace::Part::kMlp, config.layer_count - 1});
      } else if (!finite) {
        non_finite.emplace(row.row, ModelPlace{ModelPlace::Part::kHead});
      }
    }
  };
  stage.head().Logits(weights, hidden.data(), wanted, consume);
  answer.non_finite = std::move(non_finite);
  report(std::move(answer));
  return absl::OkStatus();
}

}  // namespace lockstep
