#include "kernels/reference/row_reduction.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/reference/scalar.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::reference {
namespace {

// `extend(i, chain)` is the chain with element i taken in.
template <typename Extend>
float Reduce(int64_t n, Extend extend) {
  float sum = 0.0f;
  for (int64_t begin = 0; begin < n; begin += kRowBlock) {
    const int64_t end = std::min(begin + kRowBlock, n);
    std::array<float, kRowChains> chains = {};
    for (int64_t i = begin; i < end; ++i) {
      float& chain = chains[i % kRowChains];
      chain = extend(i, chain);
    }
    for (int64_t width = kRowChains / 2; width >= 1; width /= 2) {
      for (int64_t c = 0; c < width; ++c) chains[c] = chains[c] + chains[c + width];
    }
    sum = sum + chains[0];
  }
  return sum + 0.0f;
}

}  // namespace

float RowSum(const float* x, int64_t n) {
  return Reduce(n, [x](int64_t i, float chain) { return chain + x[i]; });
}

float RowDot(const float* a, const float* b, int64_t n) {
  return Reduce(n, [a, b](int64_t i, float chain) { return std::fma(a[i], b[i], chain); });
}

float RowMax(const float* x, int64_t n) {
  float max = -kInfinity;
  for (int64_t i = 0; i < n; ++i) max = Max(max, x[i]);
  return max;
}

}  // namespace lockstep::kernels::reference
