// Losses over the tokens of a datum. A loss maps the log-probs and entropies of a whole sequence to
// one coefficient per token, dLoss / dlog-prob; a second pass over the head makes gradients from
// them. Sums only: what a step divides by is applied once, by the optimizer.
//
// A TokenLoss is stateless after construction.
#ifndef LOCKSTEP_CORE_MODEL_TOKEN_LOSS_H_
#define LOCKSTEP_CORE_MODEL_TOKEN_LOSS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/request/train_request.h"
#include "kernels/kernels.h"

namespace lockstep {

// What the rows of a micro-batch bring beside their tokens. All [M], fp32 unless said.
struct TokenLossInputs {
  std::vector<float> temperature;  // > 0
  std::vector<int32_t> target;     // -1 where the mask is 0
  std::vector<float> mask;         // 0 or 1
  std::vector<float> weight;
  std::vector<float> old_logprob;  // when sampled; NaN where there is none
  std::vector<float> advantage;

  void Reserve(int64_t rows);
};

// All [M]. Where the mask is 0, log-prob is NaN and loss and clipped are 0; entropy needs no target
// and is there all the same.
struct TokenLossOutputs {
  std::vector<float> logprob;
  std::vector<float> entropy;
  std::vector<float> loss;       // this token's term of the sum, weight applied
  std::vector<uint8_t> clipped;  // 1 where ppo's clip took the gradient away
};

// One datum of N tokens, as the loss sees it.
struct DatumLossView {
  absl::Span<const float> logprob;  // of the training forward
  absl::Span<const float> entropy;
  absl::Span<const float> mask;
  absl::Span<const float> weight;
  absl::Span<const float> old_logprob;
  absl::Span<const float> advantage;
};

class TokenLoss {
 public:
  virtual ~TokenLoss() = default;

  // loss, coefficient, clipped [N](=). Where the mask is 0, all three are 0.
  virtual void Evaluate(const DatumLossView& datum, absl::Span<float> loss,
                        absl::Span<float> coefficient, absl::Span<uint8_t> clipped) const = 0;
};

// `kernels` is borrowed: exponentials of a loss are the model's own.
std::unique_ptr<TokenLoss> MakeTokenLoss(const LossConfig& config, const kernels::Kernels& kernels);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_TOKEN_LOSS_H_
