#ifndef LOCKSTEP_KERNELS_CPU_LOG_PROB_H_
#define LOCKSTEP_KERNELS_CPU_LOG_PROB_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/row_reduction.h"
#include "kernels/cpu/scratch.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Log-probabilities over the vocabulary: z = x / T; per block of kRowBlock a maximum m_b, a sum s_b
// of exp(z - m_b) and, for the entropy, a sum of exp(z - m_b) * z; blocks are rescaled to the row's
// maximum and added ascending. One pass over the logits: the blocks' results wait for the maximum.

// Rows of logits over a vocabulary of v.
template <class V>
class LogProbRows {
 public:
  explicit LogProbRows(int64_t v)
      : v_(v),
        blocks_((v + kRowBlock - 1) / kRowBlock),
        scratch_(2 * S::Rounded(kRowBlock) + 3 * S::Rounded(blocks_)),
        z_(scratch_.Take(kRowBlock)),
        p_(scratch_.Take(kRowBlock)),
        maxima_(scratch_.Take(blocks_)),
        sums_(scratch_.Take(blocks_)),
        weighted_(scratch_.Take(blocks_)) {}

  // target -1 gives log_prob NaN. entropy may be null.
  void Run(const float* logits, float temperature, int32_t target, float* log_sum_exp,
           float* log_prob, float* entropy) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    float max = -kInfinity;
    for (int64_t b = 0; b < blocks_; ++b) {
      ReduceBlock(logits, b, V::Broadcast(temperature), entropy != nullptr);
      max = maxima_[b] > max ? maxima_[b] : max;
    }
    V sum = V::Zero();
    V weighted = V::Zero();
    for (int64_t b = 0; b < blocks_; ++b) {
      const V scale = Exp(V::Broadcast(maxima_[b] - max));
      sum = Fma(V::Broadcast(sums_[b]), scale, sum);
      if (entropy != nullptr) weighted = Fma(V::Broadcast(weighted_[b]), scale, weighted);
    }
    const V result = Finish(V::Broadcast(max) + Log(sum));
    *log_sum_exp = FirstLane(result);
    if (entropy != nullptr) *entropy = FirstLane(Finish(result - weighted / sum));
    *log_prob = FirstLane(
        target < 0 ? CanonicalNan<V>()
                   : Finish(V::Broadcast(logits[target]) / V::Broadcast(temperature) - result));
  }

 private:
  using S = Scratch<V>;

  void ReduceBlock(const float* logits, int64_t b, V temperature, bool want_weighted) {
    const float* x = logits + b * kRowBlock;
    const int64_t count = std::min(kRowBlock, v_ - b * kRowBlock);
    const float max = RowMax<V>(count, [&](int64_t i, auto lanes) {
      const V z = lanes.Load(x + i) / temperature;
      lanes.Store(z, z_ + i);
      return z;
    });
    // A block of logits that are all -inf has sum 0; -inf - -inf would be NaN.
    const V shift = V::Broadcast(max == -std::numeric_limits<float>::infinity() ? 0.0f : max);
    ForEachVector<V>(count, [&](int64_t i, auto lanes) {
      const V z = lanes.Load(z_ + i);
      const V p = Exp(z - shift);
      lanes.Store(p, p_ + i);
      lanes.Store(Select(p == V::Zero(), V::Zero(), z), z_ + i);  // 0 * -inf adds 0
    });
    maxima_[b] = max;
    sums_[b] = RowSum<V>(p_, count);
    if (want_weighted) weighted_[b] = RowDot<V>(p_, z_, count);
  }

  const int64_t v_;
  const int64_t blocks_;
  S scratch_;
  float* const z_;         // [kRowBlock]
  float* const p_;         // [kRowBlock]
  float* const maxima_;    // [blocks]
  float* const sums_;      // [blocks]
  float* const weighted_;  // [blocks]
};

// One row in place: logits become c * (onehot(target) - softmax(z)), c = coefficient / temperature.
template <class V>
void LogProbBackwardRow(float* logits, int64_t v, float temperature, int32_t target,
                        float log_sum_exp, float coefficient) {
  if (coefficient == 0.0f) {
    std::fill_n(logits, v, 0.0f);
    return;
  }
  const V t = V::Broadcast(temperature);
  const V lse = V::Broadcast(log_sum_exp);
  const V c = V::Broadcast(coefficient) / t;
  const auto gradient = [&](V x, V one_hot) { return Finish(c * (one_hot - Exp(x / t - lse))); };
  const bool has_target = target >= 0;
  const float at_target =
      has_target ? FirstLane(gradient(V::Broadcast(logits[target]), V::Broadcast(1.0f))) : 0.0f;
  ForEachVector<V>(v, [&](int64_t i, auto lanes) {
    lanes.Store(gradient(lanes.Load(logits + i), V::Zero()), logits + i);
  });
  if (has_target) logits[target] = at_target;
}

// One row: p[v](=) = exp(logits / temperature - log_sum_exp).
template <class V>
void ProbabilitiesRow(const float* logits, int64_t v, float temperature, float log_sum_exp,
                      float* p) {
  const V t = V::Broadcast(temperature);
  const V lse = V::Broadcast(log_sum_exp);
  ForEachVector<V>(
      v, [&](int64_t i, auto lanes) { lanes.Store(Exp(lanes.Load(logits + i) / t - lse), p + i); });
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_LOG_PROB_H_
