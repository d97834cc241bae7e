// The gradient norm's leaves, AdamW (Loshchilov and Hutter 2019) and the digest of the weights.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/digest_hash.h"
#include "kernels/fp_environment.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/row_reduction.h"
#include "kernels/reference/scalar.h"

namespace lockstep::kernels::reference {

double ReferenceKernels::SumOfSquares(Parallel& /*parallel*/, const float* g, int64_t n) const {
  FpEnvironment environment;
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kGradientLeaf) {
    const int64_t count = std::min(kGradientLeaf, n - begin);
    sum += static_cast<double>(RowDot(g + begin, g + begin, count));
  }
  return sum;
}

void ReferenceKernels::AdamW(Parallel& /*parallel*/, const AdamWScalars& scalars, int64_t n,
                             const float* gradient, float* master, float* moment1,
                             float* moment2) const {
  FpEnvironment environment;
  for (int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * scalars.gradient_scale;
    const float m = Finish(std::fma(scalars.beta1, moment1[i], scalars.one_minus_beta1 * g));
    const float v = Finish(std::fma(scalars.beta2, moment2[i], (scalars.one_minus_beta2 * g) * g));
    const float m_hat = m * scalars.inverse_correction1;
    const float v_hat = v * scalars.inverse_correction2;
    const float update = m_hat / (std::sqrt(v_hat) + scalars.epsilon);
    const float decayed = std::fma(-scalars.decay, master[i], master[i]);
    master[i] = Finish(std::fma(-scalars.learning_rate, update, decayed));
    moment1[i] = m;
    moment2[i] = v;
  }
}

Digest128 ReferenceKernels::Digest(Parallel& /*parallel*/, const float* x, int64_t n,
                                   uint64_t first_index) const {
  const auto bits = [&](int64_t i) { return i < n ? std::bit_cast<uint32_t>(x[i]) : 0; };
  Digest128 digest;
  for (int64_t begin = 0; begin < n; begin += kDigestBlock) {
    uint64_t sum1 = 0;
    uint64_t sum2 = 0;
    for (int64_t i = 0; i < kDigestBlock; i += 2) {
      sum1 += PairProduct(bits(begin + i), bits(begin + i + 1), kDigestKeys1, i);
      sum2 += PairProduct(bits(begin + i), bits(begin + i + 1), kDigestKeys2, i);
    }
    digest += MixBlock(sum1, sum2, first_index + static_cast<uint64_t>(begin));
  }
  return digest;
}

}  // namespace lockstep::kernels::reference
