// Operations whose outputs depend on one element each: AddBias, Add, SiluMul, Exp, Log. The
// gradient of a bias is a reduction over tokens.

#include <cmath>

#include "kernels/fp_environment.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/scalar.h"
#include "kernels/reference/token_reduction.h"

namespace lockstep::kernels::reference {

void ReferenceKernels::AddBias(Parallel& /*parallel*/, const float* bias, int64_t m, int64_t n,
                               float* y) const {
  FpEnvironment environment;
  for (int64_t i = 0; i < m * n; ++i) y[i] = Finish(y[i] + bias[i % n]);
}

void ReferenceKernels::AddBiasBackward(Parallel& /*parallel*/, const float* dy,
                                       absl::Span<const int64_t> datum_begins, int64_t n,
                                       float* dbias) const {
  FpEnvironment environment;
  for (int64_t j = 0; j < n; ++j) {
    dbias[j] = AddTokens(datum_begins, dbias[j],
                         [&](int64_t row, float chain) { return chain + dy[row * n + j]; });
  }
}

void ReferenceKernels::Add(Parallel& /*parallel*/, const float* a, const float* b, int64_t n,
                           float* y) const {
  FpEnvironment environment;
  for (int64_t i = 0; i < n; ++i) y[i] = Finish(a[i] + b[i]);
}

// silu(g) = g / (1 + exp(-g)): for large -g the denominator is +inf and the quotient 0.
void ReferenceKernels::SiluMul(Parallel& /*parallel*/, const float* gate_up, int64_t m, int64_t f,
                               float* y) const {
  FpEnvironment environment;
  for (int64_t row = 0; row < m; ++row) {
    const float* gate = gate_up + row * 2 * f;
    const float* up = gate + f;
    for (int64_t j = 0; j < f; ++j) {
      const float silu = gate[j] / (1.0f + reference::Exp(-gate[j]));
      y[row * f + j] = Finish(silu * up[j]);
    }
  }
}

// dup = dy * silu(g), dgate = (dy * up) * s * (1 + g * (1 - s)), s = 1 / (1 + exp(-g)).
void ReferenceKernels::SiluMulBackward(Parallel& /*parallel*/, const float* gate_up,
                                       const float* dy, int64_t m, int64_t f,
                                       float* dgate_up) const {
  FpEnvironment environment;
  for (int64_t row = 0; row < m; ++row) {
    const float* gate = gate_up + row * 2 * f;
    const float* up = gate + f;
    float* dgate = dgate_up + row * 2 * f;
    float* dup = dgate + f;
    for (int64_t j = 0; j < f; ++j) {
      const float denominator = 1.0f + reference::Exp(-gate[j]);
      const float silu = gate[j] / denominator;
      const float sigmoid = 1.0f / denominator;
      const float slope = sigmoid * std::fma(gate[j], 1.0f - sigmoid, 1.0f);
      dgate[j] = Finish((dy[row * f + j] * up[j]) * slope);
      dup[j] = Finish(dy[row * f + j] * silu);
    }
  }
}

void ReferenceKernels::Exp(const float* x, int64_t n, float* y) const {
  FpEnvironment environment;
  for (int64_t i = 0; i < n; ++i) y[i] = reference::Exp(x[i]);
}

void ReferenceKernels::Log(const float* x, int64_t n, float* y) const {
  FpEnvironment environment;
  for (int64_t i = 0; i < n; ++i) y[i] = reference::Log(x[i]);
}

}  // namespace lockstep::kernels::reference
