// Log-probabilities over the vocabulary. Rule: z = x / T; per block of kRowBlock a maximum m_b, a
// sum s_b of exp(z - m_b) and, for the entropy, e_b of exp(z - m_b) * z in the row-reduction shape;
// blocks are rescaled to the row's maximum M and added ascending.

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/fp_environment.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/row_reduction.h"
#include "kernels/reference/scalar.h"

namespace lockstep::kernels::reference {
namespace {

struct RowStatistics {
  float log_sum_exp = 0.0f;
  float entropy = 0.0f;
};

RowStatistics ReduceRow(const float* logits, int64_t v, float temperature) {
  float max = -kInfinity;
  for (int64_t i = 0; i < v; ++i) max = Max(max, logits[i] / temperature);

  std::array<float, kRowBlock> z;
  std::array<float, kRowBlock> p;
  float sum = 0.0f;
  float weighted = 0.0f;
  for (int64_t begin = 0; begin < v; begin += kRowBlock) {
    const int64_t count = std::min(kRowBlock, v - begin);
    for (int64_t i = 0; i < count; ++i) z[i] = logits[begin + i] / temperature;
    const float block_max = RowMax(z.data(), count);
    // A block of logits that are all -inf has sum 0; -inf - -inf would be NaN.
    const float shift = block_max == -kInfinity ? 0.0f : block_max;
    for (int64_t i = 0; i < count; ++i) p[i] = reference::Exp(z[i] - shift);
    const float block_sum = RowSum(p.data(), count);
    for (int64_t i = 0; i < count; ++i) z[i] = p[i] == 0.0f ? 0.0f : z[i];  // 0 * -inf adds 0
    const float block_weighted = RowDot(p.data(), z.data(), count);
    const float scale = reference::Exp(block_max - max);
    sum = std::fma(block_sum, scale, sum);
    weighted = std::fma(block_weighted, scale, weighted);
  }
  const float log_sum_exp = Finish(max + reference::Log(sum));
  return {.log_sum_exp = log_sum_exp, .entropy = Finish(log_sum_exp - weighted / sum)};
}

}  // namespace

void ReferenceKernels::LogProb(Parallel& /*parallel*/, const float* logits, int64_t m, int64_t v,
                               const float* temperature, const int32_t* target, float* log_sum_exp,
                               float* log_prob, float* entropy) const {
  FpEnvironment environment;
  for (int64_t row = 0; row < m; ++row) {
    const float* x = logits + row * v;
    const RowStatistics statistics = ReduceRow(x, v, temperature[row]);
    log_sum_exp[row] = statistics.log_sum_exp;
    log_prob[row] = target[row] < 0
                        ? kCanonicalNaN
                        : Finish(x[target[row]] / temperature[row] - statistics.log_sum_exp);
    if (entropy != nullptr) entropy[row] = statistics.entropy;
  }
}

void ReferenceKernels::LogProbBackward(Parallel& /*parallel*/, float* logits, int64_t m, int64_t v,
                                       const float* temperature, const int32_t* target,
                                       const float* log_sum_exp, const float* coefficient) const {
  FpEnvironment environment;
  for (int64_t row = 0; row < m; ++row) {
    float* x = logits + row * v;
    const float c = coefficient[row] / temperature[row];
    for (int64_t i = 0; i < v; ++i) {
      const float p = reference::Exp(x[i] / temperature[row] - log_sum_exp[row]);
      const float one_hot = i == target[row] ? 1.0f : 0.0f;
      x[i] = coefficient[row] == 0.0f ? 0.0f : Finish(c * (one_hot - p));
    }
  }
}

void ReferenceKernels::Probabilities(const float* logits, int64_t v, float temperature,
                                     float log_sum_exp, float* p) const {
  FpEnvironment environment;
  for (int64_t i = 0; i < v; ++i) {
    p[i] = reference::Exp(logits[i] / temperature - log_sum_exp);
  }
}

}  // namespace lockstep::kernels::reference
