#ifndef LOCKSTEP_KERNELS_CPU_ATTENTION_TILE_H_
#define LOCKSTEP_KERNELS_CPU_ATTENTION_TILE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// The two products inside attention, forward and backward: vectors against a block of columns
// (scores and dP, lanes across keys), and a weighted sum of rows (outputs, dQ, dK, dV, lanes across
// the head dimension). Every output is one FMA chain from +0 in fp32, ascending in every profile;
// columns and rows may be bf16, widened as they are loaded.

// Vectors that share the loads of one pass over the columns.
inline constexpr int64_t kDotVectors = 4;

template <class V, int64_t kRows, int64_t kColumnVectors, class T, class Lanes>
inline void DotTile(const float* const* rows, const T* columns, int64_t stride, int64_t depth,
                    Lanes lanes, float* out, int64_t out_stride) {
  V chains[kRows][kColumnVectors];
  for (auto& row : chains) {
    for (V& chain : row) chain = V::Zero();
  }
  for (int64_t d = 0; d < depth; ++d, columns += stride) {
    V column[kColumnVectors];
    for (int64_t v = 0; v < kColumnVectors; ++v) column[v] = lanes.Load(columns + v * V::kLanes);
    for (int64_t r = 0; r < kRows; ++r) {
      const V factor = V::Broadcast(rows[r][d]);
      for (int64_t v = 0; v < kColumnVectors; ++v) {
        chains[r][v] = Fma(factor, column[v], chains[r][v]);
      }
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kColumnVectors; ++v) {
      lanes.Store(chains[r][v], out + r * out_stride + v * V::kLanes);
    }
  }
}

template <class V, int64_t kRows, class T>
inline void DotRows(const float* const* rows, const T* columns, int64_t stride, int64_t count,
                    int64_t depth, float* out, int64_t out_stride) {
  int64_t c = 0;
  for (; c + 2 * V::kLanes <= count; c += 2 * V::kLanes) {
    DotTile<V, kRows, 2>(rows, columns + c, stride, depth, AllLanes<V>{}, out + c, out_stride);
  }
  ForEachVector<V>(count - c, [&](int64_t i, auto lanes) {
    DotTile<V, kRows, 1>(rows, columns + c + i, stride, depth, lanes, out + c + i, out_stride);
  });
}

// out[r * out_stride + c](=) = sum over d of rows[r][d] * columns[d * stride + c], c in [0, count).
// row_count in [1, kDotVectors].
template <class V, class T>
inline void Dots(const float* const* rows, int64_t row_count, const T* columns, int64_t stride,
                 int64_t count, int64_t depth, float* out, int64_t out_stride) {
  static_assert(kDotVectors == 4);
  switch (row_count) {
    case 1:
      return DotRows<V, 1>(rows, columns, stride, count, depth, out, out_stride);
    case 2:
      return DotRows<V, 2>(rows, columns, stride, count, depth, out, out_stride);
    case 3:
      return DotRows<V, 3>(rows, columns, stride, count, depth, out, out_stride);
    default:
      return DotRows<V, 4>(rows, columns, stride, count, depth, out, out_stride);
  }
}

template <class V, int64_t kVectors, class Lanes, class RowAt, class Emit>
inline void WeighTile(const float* weights, int64_t weight_stride, int64_t begin, int64_t end,
                      int64_t d, Lanes lanes, RowAt row_at, Emit emit) {
  V chains[kVectors];
  for (V& chain : chains) chain = V::Zero();
  for (int64_t t = begin; t < end; ++t) {
    const V weight = V::Broadcast(weights[t * weight_stride]);
    const auto* row = row_at(t) + d;
    for (int64_t v = 0; v < kVectors; ++v) {
      chains[v] = Fma(weight, lanes.Load(row + v * V::kLanes), chains[v]);
    }
  }
  for (int64_t v = 0; v < kVectors; ++v) emit(d + v * V::kLanes, lanes, chains[v]);
}

// emit(d, lanes, chain) for the parts of [0, depth), chain = sum over t in [begin, end) of
// weights[t * weight_stride] * row_at(t)[d].
template <class V, class RowAt, class Emit>
inline void WeighRows(const float* weights, int64_t weight_stride, int64_t begin, int64_t end,
                      int64_t depth, RowAt row_at, Emit emit) {
  int64_t d = 0;
  const auto run = [&]<int64_t kVectors>() {
    for (; d + kVectors * V::kLanes <= depth; d += kVectors * V::kLanes) {
      WeighTile<V, kVectors>(weights, weight_stride, begin, end, d, AllLanes<V>{}, row_at, emit);
    }
  };
  run.template operator()<8>();
  run.template operator()<4>();
  run.template operator()<1>();
  if (d < depth) {
    WeighTile<V, 1>(weights, weight_stride, begin, end, d, FirstLanes<V>{depth - d}, row_at, emit);
  }
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ATTENTION_TILE_H_
