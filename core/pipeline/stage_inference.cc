#include "core/pipeline/stage_inference.h"

#include <cmath>
#include <utility>

#include "core/base/status_macros.h"

namespace lockstep {
namespace {

LogitsResult Sample(StageModel& stage, const float* logits, const LogitsRow& row) {
  const SampledToken sampled =
      stage.sampler().Sample(logits, stage.config().vocab_size, row.sampling, row.draw);
  LogitsResult result;
  result.token = sampled.token;
  result.logprob = sampled.logprob;
  result.raw_logprob = sampled.raw_logprob;
  result.finite = sampled.finite;
  return result;
}

LogitsResult Score(StageModel& stage, const float* logits, const LogitsRow& row) {
  const int64_t v = stage.config().vocab_size;
  const float one = 1;
  float log_sum_exp;
  LogitsResult result;
  result.token = row.target;
  stage.kernels().LogProb(stage.parallel(), logits, 1, v, &row.sampling.temperature, &row.target,
                          &log_sum_exp, &result.logprob, &result.entropy);
  result.finite = std::isfinite(log_sum_exp);
  stage.kernels().LogProb(stage.parallel(), logits, 1, v, &one, &row.target, &log_sum_exp,
                          &result.raw_logprob, nullptr);
  return result;
}

}  // namespace

absl::StatusOr<InferenceReport> RunInference(StageModel& stage, const InferencePlan& plan) {
  const int64_t rows = plan.batch.row_count();
  LOCKSTEP_ASSIGN_OR_RETURN(const WeightView weights, stage.Weights(plan.weight_version));
  LOCKSTEP_ASSIGN_OR_RETURN(Buffer<float> hidden, stage.ReceiveHidden(plan.id, rows));
  Forward(stage.context(), weights, plan.batch, stage.kv(), stage.scratch(), hidden.data());

  InferenceReport report;
  if (!stage.context().range.last) {
    LOCKSTEP_RETURN_IF_ERROR(stage.SendHidden(plan.id, rows, std::move(hidden)));
    return report;
  }
  std::vector<int32_t> wanted;
  for (const LogitsRow& row : plan.logits_rows) wanted.push_back(row.row);
  stage.head().Logits(weights, hidden.data(), wanted,
                      [&](int64_t first, int64_t count, float* logits) {
                        for (int64_t i = 0; i < count; ++i) {
                          const LogitsRow& row = plan.logits_rows[first + i];
                          const float* row_logits = logits + i * stage.config().vocab_size;
                          report.results.push_back(row.kind == LogitsRow::Kind::kSample
                                                       ? Sample(stage, row_logits, row)
                                                       : Score(stage, row_logits, row));
                        }
                      });
  return report;
}

}  // namespace lockstep
