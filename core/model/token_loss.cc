#include "core/model/token_loss.h"

#include "core/base/check.h"
#include "core/model/cross_entropy_loss.h"
#include "core/model/ppo_loss.h"

namespace lockstep {

void TokenLossInputs::Reserve(int64_t rows) {
  temperature.reserve(rows);
  target.reserve(rows);
  mask.reserve(rows);
  weight.reserve(rows);
  old_logprob.reserve(rows);
  advantage.reserve(rows);
}

std::unique_ptr<TokenLoss> MakeTokenLoss(const LossConfig& config,
                                         const kernels::Kernels& kernels) {
  switch (config.kind) {
    case LossKind::kCrossEntropy:
      return std::make_unique<CrossEntropyLoss>();
    case LossKind::kPpo:
      return std::make_unique<PpoLoss>(config.clip_low_threshold, config.clip_high_threshold,
                                       kernels);
  }
  LOCKSTEP_CHECK(false) << "loss kind " << static_cast<int>(config.kind);
  return nullptr;
}

}  // namespace lockstep
