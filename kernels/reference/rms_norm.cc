// RMSNorm (Zhang and Sennrich 2019). Rule: sums over a row have the shape of row_reduction.h; the
// weight gradient is a reduction over tokens. HeadNorm is RMSNorm with one head of one token for a
// row.
//
//   r = 1 / sqrt(mean(x^2) + eps)      y_j = (x_j * r) * w_j
//   dx_j = r * g_j - x_j * r^3 / H * sum_i g_i * x_i,   g_j = dy_j * w_j
//   dw_j = sum over tokens of dy_j * (x_j * r)

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/fp_environment.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/row_reduction.h"
#include "kernels/reference/scalar.h"
#include "kernels/reference/token_reduction.h"

namespace lockstep::kernels::reference {

void ReferenceKernels::RmsNorm(Parallel& /*parallel*/, const float* x, const float* weight,
                               int64_t m, int64_t h, float epsilon, float* y,
                               float* inverse_rms) const {
  FpEnvironment environment;
  for (int64_t row = 0; row < m; ++row) {
    const float* x_row = x + row * h;
    const float mean = RowDot(x_row, x_row, h) / static_cast<float>(h);
    const float r = Finish(1.0f / std::sqrt(mean + epsilon));
    for (int64_t j = 0; j < h; ++j) y[row * h + j] = Finish((x_row[j] * r) * weight[j]);
    inverse_rms[row] = r;
  }
}

void ReferenceKernels::RmsNormBackward(Parallel& /*parallel*/, const float* x, const float* weight,
                                       const float* inverse_rms, const float* dy,
                                       absl::Span<const int64_t> datum_begins, int64_t h, float* dx,
                                       float* dweight) const {
  FpEnvironment environment;
  std::vector<float> g(h);
  for (int64_t row = 0; row < datum_begins.back(); ++row) {
    const float* x_row = x + row * h;
    const float* dy_row = dy + row * h;
    const float r = inverse_rms[row];
    for (int64_t j = 0; j < h; ++j) g[j] = dy_row[j] * weight[j];
    const float s = RowDot(g.data(), x_row, h);
    const float c = (((s * r) * r) * r) / static_cast<float>(h);
    for (int64_t j = 0; j < h; ++j) dx[row * h + j] = Finish(std::fma(-c, x_row[j], g[j] * r));
  }
  for (int64_t j = 0; j < h; ++j) {
    dweight[j] = AddTokens(datum_begins, dweight[j], [&](int64_t row, float chain) {
      return std::fma(dy[row * h + j], x[row * h + j] * inverse_rms[row], chain);
    });
  }
}

void ReferenceKernels::HeadNorm(Parallel& parallel, float* x, int64_t stride, const float* weight,
                                int64_t m, int64_t heads, int64_t head_dim, float epsilon,
                                float* before, float* inverse_rms) const {
  for (int64_t row = 0; row < m; ++row) {
    float* x_row = x + row * stride;
    float* kept = before + row * heads * head_dim;
    std::copy_n(x_row, heads * head_dim, kept);
    RmsNorm(parallel, kept, weight, heads, head_dim, epsilon, x_row, inverse_rms + row * heads);
  }
}

void ReferenceKernels::HeadNormBackward(Parallel& parallel, const float* before,
                                        const float* weight, const float* inverse_rms,
                                        absl::Span<const int64_t> datum_begins, int64_t heads,
                                        int64_t head_dim, float* dx, int64_t stride,
                                        float* dweight) const {
  const int64_t m = datum_begins.back();
  const int64_t width = heads * head_dim;
  std::vector<float> dy(m * width);
  std::vector<float> dx_heads(m * width);
  for (int64_t row = 0; row < m; ++row) {
    std::copy_n(dx + row * stride, width, dy.data() + row * width);
  }
  std::vector<int64_t> begins;
  for (const int64_t begin : datum_begins) begins.push_back(begin * heads);
  RmsNormBackward(parallel, before, weight, inverse_rms, dy.data(), begins, head_dim,
                  dx_heads.data(), dweight);
  for (int64_t row = 0; row < m; ++row) {
    std::copy_n(dx_heads.data() + row * width, width, dx + row * stride);
  }
}

}  // namespace lockstep::kernels::reference
