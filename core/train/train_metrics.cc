#include "core/train/train_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/check.h"
#include "kernels/host_math.h"

namespace lockstep {
namespace {

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

bool Masked(const Datum& datum, int64_t i) { return !datum.mask.empty() && datum.mask[i] == 0; }

// Adds one datum's comparison with the log-probs that came with it.
class RolloutComparison {
 public:
  void Add(const Datum& datum, int64_t datum_index, absl::Span<const float> logprob,
           const WeightsState& state) {
    if (datum.logprobs.empty()) return;
    const bool same_state = datum.sampled_under.has_value() && datum.sampled_under->SameBits(state);
    for (int64_t i = 0; i < datum.length(); ++i) {
      if (Masked(datum, i)) continue;
      const double expected = datum.logprobs[i];
      const double actual = logprob[i];
      if (std::isfinite(expected)) AddDifference(expected, actual);
      if (!same_state) continue;
      ++compared_;
      if (SameBits(datum.logprobs[i], logprob[i])) continue;
      if (mismatched_++ == 0) {
        first_ = TokenMismatch{datum_index, i, Bits(datum.logprobs[i]), Bits(logprob[i])};
      }
    }
  }

  void Report(TrainMetrics* metrics) const {
    metrics->compared_tokens = compared_;
    metrics->mismatched_tokens = mismatched_;
    if (mismatched_ > 0) metrics->first_mismatch = first_;
    if (count_ == 0) return;
    metrics->rollout_probs_diff_max = diff_max_;
    metrics->rollout_probs_diff_mean = diff_sum_ / static_cast<double>(count_);
    metrics->k3_kl = k3_sum_ / static_cast<double>(count_);
    metrics->ppo_kl = kl_sum_ / static_cast<double>(count_);
  }

 private:
  void AddDifference(double expected, double actual) {
    const double diff = std::abs(kernels::host::Exp(actual) - kernels::host::Exp(expected));
    const double d = actual - expected;
    diff_max_ = std::max(diff_max_, diff);
    diff_sum_ += diff;
    k3_sum_ += kernels::host::Exp(d) - 1 - d;
    kl_sum_ -= d;
    ++count_;
  }

  int64_t compared_ = 0;
  int64_t mismatched_ = 0;
  TokenMismatch first_;
  int64_t count_ = 0;  // tokens with a log-prob to compare with
  double diff_max_ = 0;
  double diff_sum_ = 0;
  double k3_sum_ = 0;
  double kl_sum_ = 0;
};

}  // namespace

bool SameBits(float a, float b) { return Bits(a) == Bits(b) || (std::isnan(a) && std::isnan(b)); }

int64_t CountTokens(absl::Span<const Datum> data) {
  int64_t count = 0;
  for (const Datum& datum : data) {
    for (int64_t i = 0; i < datum.length(); ++i) count += Masked(datum, i) ? 0 : 1;
  }
  return count;
}

std::vector<DatumOutputs> SplitByDatum(absl::Span<const Datum> data,
                                       absl::Span<const TokenLossOutputs> micro_batches) {
  std::vector<DatumOutputs> outputs;
  size_t micro_batch = 0;
  size_t row = 0;
  for (const Datum& datum : data) {
    const size_t length = static_cast<size_t>(datum.length());
    if (row == micro_batches[micro_batch].logprob.size()) {
      ++micro_batch;
      row = 0;
    }
    const TokenLossOutputs& from = micro_batches[micro_batch];
    LOCKSTEP_CHECK_LE(row + length, from.logprob.size());
    outputs.push_back({absl::MakeConstSpan(from.logprob).subspan(row, length),
                       absl::MakeConstSpan(from.entropy).subspan(row, length),
                       absl::MakeConstSpan(from.loss).subspan(row, length),
                       absl::MakeConstSpan(from.clipped).subspan(row, length)});
    row += length;
  }
  return outputs;
}

TrainMetrics ComputeMetrics(absl::Span<const Datum> data, absl::Span<const DatumOutputs> outputs,
                            LossAggMode agg_mode, const WeightsState& state) {
  TrainMetrics metrics;
  RolloutComparison comparison;
  double clipped = 0;
  for (size_t d = 0; d < data.size(); ++d) {
    comparison.Add(data[d], static_cast<int64_t>(d), outputs[d].logprob, state);
    for (int64_t i = 0; i < data[d].length(); ++i) {
      if (Masked(data[d], i)) continue;
      ++metrics.token_count;
      metrics.loss += outputs[d].loss[i];
      metrics.entropy += outputs[d].entropy[i];
      clipped += outputs[d].clipped[i];
    }
  }
  comparison.Report(&metrics);
  if (metrics.token_count == 0) return metrics;
  const double count = static_cast<double>(metrics.token_count);
  if (agg_mode == LossAggMode::kTokenMean) metrics.loss /= count;
  metrics.entropy /= count;
  metrics.pg_clipfrac = clipped / count;
  return metrics;
}

}  // namespace lockstep
