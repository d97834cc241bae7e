// The sampler transform and the draw (docs/numerics.md, "Sampling"). A token is a function of the
// row's logits, the sampling parameters and the draw's key: of nothing else.
//
// A Sampler belongs to one thread; it keeps scratch memory of one row.
#ifndef LOCKSTEP_CORE_MODEL_SAMPLER_H_
#define LOCKSTEP_CORE_MODEL_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "core/request/sampling_params.h"
#include "kernels/kernels.h"

namespace lockstep {

// What a draw's random number is a function of (Philox4x32-10: key = seed, counter = the rest).
struct DrawKey {
  uint64_t seed = 0;
  uint64_t sample_index = 0;
  uint64_t position = 0;  // absolute, of the token that is drawn
};

struct SampledToken {
  int32_t token = -1;
  float logprob = 0;      // nats, of the distribution drawn from; greedy: 0
  float raw_logprob = 0;  // nats, whole vocabulary at temperature 1
  bool finite = true;     // false: the logits are not finite; nothing was drawn
};

class Sampler {
 public:
  // `kernels` and `parallel` are borrowed.
  Sampler(const kernels::Kernels& kernels, kernels::Parallel& parallel);

  // logits[V], left as they are.
  SampledToken Sample(const float* logits, int64_t v, const SamplingParams& params,
                      const DrawKey& key);

 private:
  // Fills kept_ with the ids that top-k, top-p and min-p leave, ascending.
  void Truncate(const float* logits, int64_t v, const SamplingParams& params);
  float LogSumExp(const float* logits, int64_t v, float temperature);
  float LogProb(const float* logits, int64_t v, float temperature, int32_t target);

  const kernels::Kernels& kernels_;
  kernels::Parallel& parallel_;

  std::vector<int32_t> order_;        // [V] a heap of ids, best first
  std::vector<int32_t> kept_;         // ids, ascending
  std::vector<float> kept_logits_;    // of kept_
  std::vector<float> probabilities_;  // [V], or of kept_
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_SAMPLER_H_
