// Cross entropy: loss = -weight * logprob, so coefficient = -weight.
#ifndef LOCKSTEP_CORE_MODEL_CROSS_ENTROPY_LOSS_H_
#define LOCKSTEP_CORE_MODEL_CROSS_ENTROPY_LOSS_H_

#include "core/model/token_loss.h"

namespace lockstep {

class CrossEntropyLoss final : public TokenLoss {
 public:
  void Evaluate(const DatumLossView& datum, absl::Span<float> loss, absl::Span<float> coefficient,
                absl::Span<uint8_t> clipped) const override;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_CROSS_ENTROPY_LOSS_H_
