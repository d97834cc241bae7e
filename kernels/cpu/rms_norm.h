#ifndef LOCKSTEP_KERNELS_CPU_RMS_NORM_H_
#define LOCKSTEP_KERNELS_CPU_RMS_NORM_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/row_reduction.h"
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

// dweight[begin, end)(+=): per datum chunk one chain per column, finished chunks added ascending.
template <class V>
void RmsNormBackwardWeightColumns(const float* x, const float* inverse_rms, const float* dy,
                                  absl::Span<const int64_t> datum_begins, int64_t h, int64_t begin,
                                  int64_t end, float* dweight) {
  // Chains side by side, enough to hide the latency of an FMA.
  constexpr int64_t kVectors = 8;
  constexpr int64_t kColumns = kVectors * V::kLanes;
  const auto add_chunk = [&](int64_t column, int64_t first, int64_t count) {
    V chains[kVectors];
    for (V& chain : chains) chain = V::Zero();
    const int64_t columns = std::min(kColumns, end - column);
    for (int64_t row = first; row < first + count; ++row) {
      const V r = V::Broadcast(inverse_rms[row]);
      const int64_t offset = row * h + column;
      const auto extend = [&](int64_t v, auto lanes) {
        const int64_t i = offset + v * V::kLanes;
        chains[v] = Fma(lanes.Load(dy + i), lanes.Load(x + i) * r, chains[v]);
      };
      if (columns == kColumns) {
        for (int64_t v = 0; v < kVectors; ++v) extend(v, AllLanes<V>{});
      } else {
        for (int64_t v = 0; v * V::kLanes < columns; ++v) {
          extend(v, FirstLanes<V>{std::min(V::kLanes, columns - v * V::kLanes)});
        }
      }
    }
    ForEachVector<V>(columns, [&](int64_t i, auto lanes) {
      float* out = dweight + column + i;
      lanes.Store(Finish(lanes.Load(out) + chains[i / V::kLanes]), out);
    });
  };
  for (int64_t column = begin; column < end; column += kColumns) {
    for (size_t datum = 0; datum + 1 < datum_begins.size(); ++datum) {
      for (int64_t t = datum_begins[datum]; t < datum_begins[datum + 1]; t += kTokenChunk) {
        add_chunk(column, t, std::min(kTokenChunk, datum_begins[datum + 1] - t));
      }
    }
  }
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_RMS_NORM_H_
