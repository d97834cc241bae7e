// Rotary position embedding (Su et al. 2021), half-split pairs (i, i + head_dim / 2). Rule: the
// second product is rounded, the first one is fused into the sum.

#include <cmath>

#include "kernels/fp_environment.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/scalar.h"

namespace lockstep::kernels::reference {
namespace {

// Calls rotate(a, b, c, s) for every pair and its angle's cosine and sine.
template <typename Rotate>
void ForEachPair(float* x, int64_t stride, int64_t heads, int64_t head_dim,
                 absl::Span<const int32_t> positions, const float* cosine, const float* sine,
                 Rotate rotate) {
  const int64_t half = head_dim / 2;
  for (size_t row = 0; row < positions.size(); ++row) {
    const float* cosine_row = cosine + positions[row] * half;
    const float* sine_row = sine + positions[row] * half;
    for (int64_t head = 0; head < heads; ++head) {
      float* values = x + row * stride + head * head_dim;
      for (int64_t i = 0; i < half; ++i) {
        rotate(values[i], values[i + half], cosine_row[i], sine_row[i]);
      }
    }
  }
}

}  // namespace

void ReferenceKernels::Rope(Parallel& /*parallel*/, float* x, int64_t stride, int64_t heads,
                            int64_t head_dim, absl::Span<const int32_t> positions,
                            const float* cosine, const float* sine) const {
  FpEnvironment environment;
  ForEachPair(x, stride, heads, head_dim, positions, cosine, sine,
              [](float& a, float& b, float c, float s) {
                const float rotated_a = std::fma(a, c, -(b * s));
                const float rotated_b = std::fma(b, c, a * s);
                a = Finish(rotated_a);
                b = Finish(rotated_b);
              });
}

void ReferenceKernels::RopeBackward(Parallel& /*parallel*/, float* dx, int64_t stride,
                                    int64_t heads, int64_t head_dim,
                                    absl::Span<const int32_t> positions, const float* cosine,
                                    const float* sine) const {
  FpEnvironment environment;
  ForEachPair(dx, stride, heads, head_dim, positions, cosine, sine,
              [](float& a, float& b, float c, float s) {
                const float rotated_a = std::fma(a, c, b * s);
                const float rotated_b = std::fma(b, c, -(a * s));
                a = Finish(rotated_a);
                b = Finish(rotated_b);
              });
}

}  // namespace lockstep::kernels::reference
