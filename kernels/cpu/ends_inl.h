#ifndef LOCKSTEP_KERNELS_CPU_ENDS_INL_H_
#define LOCKSTEP_KERNELS_CPU_ENDS_INL_H_

// Bodies of CpuKernels: log-probabilities, and the optimizer step.

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/adamw.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/digest.h"
#include "kernels/cpu/grain.h"
#include "kernels/cpu/log_prob.h"
#include "kernels/cpu/row_reduction.h"
#include "kernels/cpu/scratch.h"
#include "kernels/fp_environment.h"

namespace lockstep::kernels::cpu {

template <class V, class Element>
void CpuKernels<V, Element>::LogProb(Parallel& parallel, const float* logits, int64_t m, int64_t v,
                                     const float* temperature, const int32_t* target,
                                     float* log_sum_exp, float* log_prob, float* entropy) const {
  parallel.For(m, GrainRows(v), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    LogProbRows<V> rows(v);
    for (int64_t row = begin; row < end; ++row) {
      rows.Run(logits + row * v, temperature[row], target[row], log_sum_exp + row, log_prob + row,
               entropy == nullptr ? nullptr : entropy + row);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::LogProbBackward(Parallel& parallel, float* logits, int64_t m,
                                             int64_t v, const float* temperature,
                                             const int32_t* target, const float* log_sum_exp,
                                             const float* coefficient) const {
  parallel.For(m, GrainRows(v), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      LogProbBackwardRow<V>(logits + row * v, v, temperature[row], target[row], log_sum_exp[row],
                            coefficient[row]);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::Probabilities(const float* logits, int64_t v, float temperature,
                                           float log_sum_exp, float* p) const {
  FpEnvironment environment;
  ProbabilitiesRow<V>(logits, v, temperature, log_sum_exp, p);
}

template <class V, class Element>
double CpuKernels<V, Element>::SumOfSquares(Parallel& parallel, const float* g, int64_t n) const {
  const int64_t leaves = (n + kGradientLeaf - 1) / kGradientLeaf;
  Scratch<V> scratch(leaves);
  float* sums = scratch.Take(leaves);
  parallel.For(leaves, GrainRows(kGradientLeaf), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t leaf = begin; leaf < end; ++leaf) {
      const float* from = g + leaf * kGradientLeaf;
      sums[leaf] = RowDot<V>(from, from, std::min(kGradientLeaf, n - leaf * kGradientLeaf));
    }
  });
  FpEnvironment environment;
  double sum = 0.0;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) sum += static_cast<double>(sums[leaf]);
  return sum;
}

template <class V, class Element>
void CpuKernels<V, Element>::AdamW(Parallel& parallel, const AdamWScalars& scalars, int64_t n,
                                   const float* gradient, float* master, float* moment1,
                                   float* moment2) const {
  parallel.For(n, kGrainElements, [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    AdamWElements<V>(scalars, end - begin, gradient + begin, master + begin, moment1 + begin,
                     moment2 + begin);
  });
}

template <class V, class Element>
Digest128 CpuKernels<V, Element>::Digest(Parallel& parallel, const float* x, int64_t n,
                                         uint64_t first_index) const {
  return DigestTensor<V>(parallel, x, n, first_index);
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ENDS_INL_H_
