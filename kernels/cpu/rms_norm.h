#ifndef LOCKSTEP_KERNELS_CPU_RMS_NORM_H_
#define LOCKSTEP_KERNELS_CPU_RMS_NORM_H_

#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/row_reduction.h"
#include "kernels/cpu/token_columns.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// RMSNorm (Zhang and Sennrich 2019).
//
//   r = 1 / sqrt(mean(x^2) + eps)      y_j = (x_j * r) * w_j
//   dx_j = r * g_j - x_j * r^3 / H * sum_i g_i * x_i,   g_j = dy_j * w_j
//   dw_j = sum over tokens of dy_j * (x_j * r)

// One row: y[h](=); returns r.
template <class V>
float RmsNormRow(const float* x, const float* weight, int64_t h, float epsilon, float* y) {
  const float mean = RowDot<V>(x, x, h) / static_cast<float>(h);
  const V r = Finish(V::Broadcast(1.0f) / Sqrt(V::Broadcast(mean + epsilon)));
  ForEachVector<V>(h, [&](int64_t i, auto lanes) {
    lanes.Store(Finish((lanes.Load(x + i) * r) * lanes.Load(weight + i)), y + i);
  });
  return FirstLane(r);
}

// One row: dx[h](=).
template <class V>
void RmsNormBackwardRow(const float* x, const float* weight, float inverse_rms, const float* dy,
                        int64_t h, float* dx) {
  const float r = inverse_rms;
  const float s = RowReduce<V>(h, [&](int64_t i, auto lanes, V chain) {
    return Fma(lanes.Load(dy + i) * lanes.Load(weight + i), lanes.Load(x + i), chain);
  });
  const V minus_c = -V::Broadcast((((s * r) * r) * r) / static_cast<float>(h));
  const V r_lanes = V::Broadcast(r);
  ForEachVector<V>(h, [&](int64_t i, auto lanes) {
    const V g = lanes.Load(dy + i) * lanes.Load(weight + i);
    lanes.Store(Finish(Fma(minus_c, lanes.Load(x + i), g * r_lanes)), dx + i);
  });
}

// dweight[begin, end)(+=) from rows x[h] and dy[h], row i of dy at dy_row(i).
template <class V, class DyRow>
void RmsNormBackwardWeightColumns(const float* x, const float* inverse_rms, DyRow dy_row,
                                  absl::Span<const int64_t> datum_begins, int64_t h, int64_t begin,
                                  int64_t end, float* dweight) {
  AddTokenColumns<V>(
      datum_begins, begin, end, dweight, [&](int64_t row, int64_t column, auto lanes, V chain) {
        const V r = V::Broadcast(inverse_rms[row]);
        return Fma(lanes.Load(dy_row(row) + column), lanes.Load(x + row * h + column) * r, chain);
      });
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_RMS_NORM_H_
