#include "core/model/cross_entropy_loss.h"

#include "kernels/fp_environment.h"

namespace lockstep {

void CrossEntropyLoss::Evaluate(const DatumLossView& datum, absl::Span<float> loss,
                                absl::Span<float> coefficient, absl::Span<uint8_t> clipped) const {
  const kernels::FpEnvironment environment;
  for (size_t i = 0; i < datum.logprob.size(); ++i) {
    clipped[i] = 0;
    if (datum.mask[i] == 0) {
      loss[i] = coefficient[i] = 0;
      continue;
    }
    loss[i] = -datum.weight[i] * datum.logprob[i];
    coefficient[i] = -datum.weight[i];
  }
}

}  // namespace lockstep
