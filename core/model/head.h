#ifndef LOCKSTEP_CORE_MODEL_HEAD_H_
#define LOCKSTEP_CORE_MODEL_HEAD_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/model/forward.h"
#include "core/model/optimizer_state.h"

namespace lockstep {

// Rows of logits that exist at one time: bounds memory at kHeadRows * V floats. Not a reduction's
// shape, except in the head's weight gradient, where it equals kernels::kTokenChunk.
inline constexpr int64_t kHeadRows = 128;

// The last stage's end of the forward: final norm and vocabulary product of chosen rows, in chunks
// of kHeadRows so that no full logits matrix ever exists. Owned by the stage's thread; the context
// outlives it.
class Head {
 public:
  explicit Head(const StageContext& context);

  // Calls `consume(first, count, logits)` for consecutive chunks of `rows` (indices into
  // hidden[*, H]); logits[count, V] may be overwritten by the callee.
  void Logits(const WeightView& weights, const float* hidden, absl::Span<const int32_t> rows,
              absl::FunctionRef<void(int64_t first, int64_t count, float* logits)> consume);

  // While `consume` runs: the final norm's inverse RMS of row i of its chunk, 0 or NaN where the
  // row is not finite or its square sum overflows.
  float inverse_rms(int64_t i) const { return inverse_rms_.data()[i]; }

  // Training, first pass: log-probs of targets under softmax(logits / temperature), entropy in
  // nats and log-sum-exp of every row. All outputs [M]. A target of -1 gives NaN.
  struct TokenStatistics {
    std::vector<float> log_prob;
    std::vector<float> log_sum_exp;
    std::vector<float> entropy;
  };
  TokenStatistics Statistics(const WeightView& weights, const float* hidden,
                             absl::Span<const float> temperature, absl::Span<const int32_t> target);

  // Training, second pass: logits are made again chunk by chunk, turned into dlogits, and pushed
  // back. coefficient[M] = dLoss / dlog_prob. dhidden[M, H](=); weight gradients are added.
  // `datum_begins` as in kernels.h. chunks of the head's weight gradient are the datum chunks.
  void Backward(const WeightView& weights, const float* hidden,
                absl::Span<const int64_t> datum_begins, absl::Span<const float> temperature,
                absl::Span<const int32_t> target, absl::Span<const float> log_sum_exp,
                absl::Span<const float> coefficient, OptimizerState& gradients, float* dhidden);

 private:
  // normed_, inverse_rms_ and logits_ of hidden[count, H].
  void NormAndProject(const StageWeights& weights, const float* hidden, int64_t count);

  const StageContext& context_;
  Buffer<float> gathered_;     // [kHeadRows, H]
  Buffer<float> normed_;       // [kHeadRows, H]
  Buffer<float> inverse_rms_;  // [kHeadRows]
  Buffer<float> logits_;       // [kHeadRows, V]
  Buffer<float> dnormed_;      // [kHeadRows, H]
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_HEAD_H_
