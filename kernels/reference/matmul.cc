// Matrix products. Rule: a reduction over k (or n) is cut into chunks of kReduceChunk; a chunk is
// one FMA chain from +0, ascending; chunk sums are added ascending. A reduction over tokens is cut
// at data and then into chunks of kTokenChunk. In profile bf16 operands are rounded first, and a
// chain goes through pairs (2i, 2i + 1) of its chunk, the odd one first: what VDPBF16PS does.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/fp_environment.h"
#include "kernels/reference/panels.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/scalar.h"
#include "kernels/reference/token_reduction.h"

namespace lockstep::kernels::reference {
namespace {

// Sum over i of term factors a(i) * b(i), i in [0, n).
template <typename A, typename B>
float ChunkedDot(Profile profile, int64_t n, A a, B b) {
  float sum = 0.0f;
  for (int64_t begin = 0; begin < n; begin += kReduceChunk) {
    const int64_t end = std::min(begin + kReduceChunk, n);
    float chain = 0.0f;
    ForEachInOrder(profile, begin, end, [&](int64_t i) { chain = std::fma(a(i), b(i), chain); });
    sum = sum + chain;
  }
  return Finish(sum);
}

}  // namespace

void ReferenceKernels::Pack(Parallel& /*parallel*/, const float* w, int64_t n, int64_t k,
                            void* panels) const {
  std::memset(panels, 0, static_cast<size_t>(PackedBytes(profile_, n, k)));
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t index = PanelIndex(profile_, row, i, k);
      if (profile_ == Profile::kFp32) {
        static_cast<float*>(panels)[index] = w[row * k + i];
      } else {
        static_cast<uint16_t*>(panels)[index] = NarrowToBf16(w[row * k + i]);
      }
    }
  }
}

void ReferenceKernels::MatMul(Parallel& /*parallel*/, const float* x, int64_t m,
                              const PackedMatrix& w, float* y) const {
  FpEnvironment environment;
  for (int64_t row = 0; row < m; ++row) {
    const float* x_row = x + row * w.k;
    for (int64_t n = 0; n < w.n; ++n) {
      y[row * w.n + n] = ChunkedDot(
          profile_, w.k, [&](int64_t k) { return Operand(x_row[k]); },
          [&](int64_t k) { return Element(profile_, w, n, k); });
    }
  }
}

void ReferenceKernels::MatMulBackwardInput(Parallel& /*parallel*/, const float* dy, int64_t m,
                                           const PackedMatrix& w, float* dx) const {
  FpEnvironment environment;
  for (int64_t row = 0; row < m; ++row) {
    const float* dy_row = dy + row * w.n;
    for (int64_t k = 0; k < w.k; ++k) {
      dx[row * w.k + k] = ChunkedDot(
          profile_, w.n, [&](int64_t n) { return Operand(dy_row[n]); },
          [&](int64_t n) { return Element(profile_, w, n, k); });
    }
  }
}

void ReferenceKernels::MatMulBackwardWeight(Parallel& /*parallel*/, const float* dy, const float* x,
                                            absl::Span<const int64_t> datum_begins, int64_t n,
                                            int64_t k, float* dw) const {
  FpEnvironment environment;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const auto extend = [&](int64_t row, float chain) {
        return std::fma(Operand(dy[row * n + i]), Operand(x[row * k + j]), chain);
      };
      dw[i * k + j] = AddTokens(datum_begins, dw[i * k + j], extend, profile_);
    }
  }
}

}  // namespace lockstep::kernels::reference
