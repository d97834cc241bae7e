#ifndef LOCKSTEP_KERNELS_CPU_MATMUL_BACKWARD_WEIGHT_H_
#define LOCKSTEP_KERNELS_CPU_MATMUL_BACKWARD_WEIGHT_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/product_tile.h"
#include "kernels/cpu/transpose.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// dw[N, K](+=) = dy^T · x. A datum's chunk of up to kTokenChunk positions is one chain per element;
// finished chunks are added to dw ascending. Per chunk both operands are copied to where the
// product tile wants them: dy transposed, so that a row of the tile is one n, and 32 columns of x
// as a panel.

// Rows of dw that share one copy of an x panel: 128 KiB of transposed dy, a quarter of L2, makes
// the copy of x less than 2 % of the multiplications it feeds.
inline constexpr int64_t kWeightGradientRows = 256;
// The fewest rows a thread is given, lest copies of x outweigh the multiplications.
inline constexpr int64_t kWeightGradientRowsMin = 48;

struct WeightGradientScratch {
  alignas(64) float dy[kWeightGradientRows * kTokenChunk];
  alignas(64) float x[kTokenChunk * kPanelWidth];
};

// dw rows [0, rows) x 32 columns (+=) one finished chunk. scratch holds both operands.
template <class V>
void AddWeightGradientTile(const WeightGradientScratch& scratch, int64_t count, int64_t rows,
                           int64_t width, float* dw, int64_t stride) {
  ForRowTiles<V>(rows, [&]<int64_t kRows>(int64_t row) {
    // Rows of dw lie far apart, where hardware does not look ahead.
    for (int64_t r = 0; r < kRows; ++r) {
      __builtin_prefetch(dw + (row + r) * stride, 1);
      __builtin_prefetch(dw + (row + r) * stride + width - 1, 1);
    }
    Tile<V, kRows> tile;
    RunChains(scratch.dy + row * kTokenChunk, kTokenChunk, scratch.x, count, tile);
    for (int64_t r = 0; r < kRows; ++r) {
      float* out = dw + (row + r) * stride;
      for (int64_t v = 0; v < kPanelVectors<V>; ++v) {
        const int64_t lane = v * V::kLanes;
        if (lane + V::kLanes <= width) {
          Finish(V::Load(out + lane) + tile.sum[r][v]).Store(out + lane);
        } else if (lane < width) {
          const int64_t left = width - lane;
          Finish(V::LoadFirst(out + lane, left) + tile.sum[r][v]).StoreFirst(out + lane, left);
        }
      }
    }
  });
}

// Rows [begin, end) of dw[n, k].
template <class V>
void MatMulBackwardWeightRows(const float* dy, const float* x,
                              absl::Span<const int64_t> datum_begins, int64_t n, int64_t k,
                              int64_t begin, int64_t end, float* dw) {
  WeightGradientScratch scratch;
  const auto add_chunk = [&](int64_t first, int64_t count) {
    for (int64_t row = begin; row < end; row += kWeightGradientRows) {
      const int64_t rows = std::min(kWeightGradientRows, end - row);
      Transpose<V>(dy + first * n + row, n, count, rows, scratch.dy, kTokenChunk);
      for (int64_t column = 0; column < k; column += kPanelWidth) {
        const int64_t width = std::min(kPanelWidth, k - column);
        for (int64_t t = 0; t < count; ++t) {
          const float* from = x + (first + t) * k + column;
          float* to = scratch.x + t * kPanelWidth;
          if (width == kPanelWidth) {
            std::copy_n(from, kPanelWidth, to);
          } else {
            std::copy_n(from, width, to);
            std::fill(to + width, to + kPanelWidth, 0.0f);
          }
        }
        AddWeightGradientTile<V>(scratch, count, rows, width, dw + row * k + column, k);
      }
    }
  };
  for (size_t datum = 0; datum + 1 < datum_begins.size(); ++datum) {
    for (int64_t t = datum_begins[datum]; t < datum_begins[datum + 1]; t += kTokenChunk) {
      add_chunk(t, std::min(kTokenChunk, datum_begins[datum + 1] - t));
    }
  }
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_MATMUL_BACKWARD_WEIGHT_H_
