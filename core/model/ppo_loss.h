// The clipped surrogate of PPO (Schulman et al. 2017, "Proximal Policy Optimization Algorithms",
// equation 7), negated to be minimised:
//
//   r = exp(logprob - old_logprob)
//   loss = weight * max(-A r, -A clip(r, low, high))
//   dloss / dlogprob = -weight A r where the first term is taken, else 0.
//
// On policy, equal bits of the two log-probs give r = exp(0) = 1 exactly.
#ifndef LOCKSTEP_CORE_MODEL_PPO_LOSS_H_
#define LOCKSTEP_CORE_MODEL_PPO_LOSS_H_

#include "core/model/token_loss.h"

namespace lockstep {

class PpoLoss final : public TokenLoss {
 public:
  // Bounds of the ratio; `kernels` is borrowed. REQUIRES: clip_low <= 1 <= clip_high.
  PpoLoss(float clip_low, float clip_high, const kernels::Kernels& kernels);

  void Evaluate(const DatumLossView& datum, absl::Span<float> loss, absl::Span<float> coefficient,
                absl::Span<uint8_t> clipped) const override;

 private:
  const float clip_low_;
  const float clip_high_;
  const kernels::Kernels& kernels_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_PPO_LOSS_H_
