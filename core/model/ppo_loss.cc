#include "core/model/ppo_loss.h"

#include <vector>

#include "core/base/check.h"
#include "kernels/fp_environment.h"

namespace lockstep {

PpoLoss::PpoLoss(float clip_low, float clip_high, const kernels::Kernels& kernels)
    : clip_low_(clip_low), clip_high_(clip_high), kernels_(kernels) {
  LOCKSTEP_CHECK(clip_low <= 1 && 1 <= clip_high) << clip_low << " " << clip_high;
}

void PpoLoss::Evaluate(const DatumLossView& datum, absl::Span<float> loss,
                       absl::Span<float> coefficient, absl::Span<uint8_t> clipped) const {
  const kernels::FpEnvironment environment;
  const size_t n = datum.logprob.size();
  std::vector<float> log_ratio(n);
  std::vector<float> ratio(n);
  for (size_t i = 0; i < n; ++i) {
    log_ratio[i] = datum.mask[i] == 0 ? 0 : datum.logprob[i] - datum.old_logprob[i];
  }
  kernels_.Exp(log_ratio.data(), static_cast<int64_t>(n), ratio.data());

  for (size_t i = 0; i < n; ++i) {
    if (datum.mask[i] == 0) {
      loss[i] = coefficient[i] = 0;
      clipped[i] = 0;
      continue;
    }
    const float r = ratio[i];
    const float bounded = r < clip_low_ ? clip_low_ : (r > clip_high_ ? clip_high_ : r);
    const float free_term = -datum.advantage[i] * r;
    const float clipped_term = -datum.advantage[i] * bounded;
    clipped[i] = clipped_term > free_term ? 1 : 0;
    loss[i] = datum.weight[i] * (clipped[i] ? clipped_term : free_term);
    coefficient[i] = clipped[i] ? 0 : datum.weight[i] * free_term;
  }
}

}  // namespace lockstep
