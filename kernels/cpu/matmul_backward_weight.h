#ifndef LOCKSTEP_KERNELS_CPU_MATMUL_BACKWARD_WEIGHT_H_
#define LOCKSTEP_KERNELS_CPU_MATMUL_BACKWARD_WEIGHT_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/product_tile.h"
#include "kernels/cpu/row_tiles.h"
#include "kernels/cpu/transpose.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// dw[N, K](+=) = dy^T · x. A datum's chunk of up to kTokenChunk positions is one chain per element;
// finished chunks are added to dw ascending. Per chunk both operands are copied to where the
// product tile wants them: dy transposed, so that a row of the tile is one n, and 32 columns of x
// as a panel; in bf16 both are rounded on the way.

// Rows of dw that share one copy of an x panel: 128 KiB of transposed dy, a quarter of L2, makes
// the copy of x less than 2 % of the multiplications it feeds.
inline constexpr int64_t kWeightGradientRows = 256;
// The fewest rows a thread is given, lest copies of x outweigh the multiplications.
inline constexpr int64_t kWeightGradientRowsMin = 48;

struct WeightGradientScratch {
  alignas(64) float dy[kWeightGradientRows * kTokenChunk];  // [n][position]
  alignas(64) float columns[kTokenChunk * kPanelWidth];     // [position][32]
  alignas(64) float panel[kTokenChunk * kPanelWidth];       // bf16: `columns` in pairs
};

// dw rows [0, rows) x 32 columns (+=) one finished chunk. scratch holds both operands.
template <class V, class Element>
void AddWeightGradientTile(const WeightGradientScratch& scratch, int64_t count, int64_t rows,
                           int64_t width, float* dw, int64_t stride) {
  const float* panel = Element::kPositions == 2 ? scratch.panel : scratch.columns;
  ForRowTiles<kTileRows<V, Element>>(rows, [&]<int64_t kRows>(int64_t row) {
    // Rows of dw lie far apart, where hardware does not look ahead.
    for (int64_t r = 0; r < kRows; ++r) {
      __builtin_prefetch(dw + (row + r) * stride, 1);
      __builtin_prefetch(dw + (row + r) * stride + width - 1, 1);
    }
    Tile<V, kRows> tile;
    RunChains<Element>(scratch.dy + row * kTokenChunk, kTokenChunk, panel,
                       PanelRows(Element::kProfile, count), tile);
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

// Rounds `rows` rows of `count` positions, kTokenChunk lanes apart, in place, to the operand that
// an Element takes.
template <class V>
void RoundTransposed(int64_t /*count*/, int64_t /*rows*/, Fp32Element /*element*/, float* /*dy*/) {}
template <class V>
void RoundTransposed(int64_t count, int64_t rows, Bf16Element /*element*/, float* dy) {
  for (int64_t r = 0; r < rows; ++r, dy += kTokenChunk) RoundRow<V>(dy, count, dy);
}
template <class V>
void RoundTransposed(int64_t count, int64_t rows, Bf16DotElement /*element*/, float* dy) {
  for (int64_t r = 0; r < rows; ++r, dy += kTokenChunk) {
    RoundRow<V>(dy, count, reinterpret_cast<uint16_t*>(dy));
  }
}

// Rows [begin, end) of dw[n, k].
template <class V, class Element>
void MatMulBackwardWeightRows(const float* dy, const float* x,
                              absl::Span<const int64_t> datum_begins, int64_t n, int64_t k,
                              int64_t begin, int64_t end, float* dw) {
  constexpr bool kPairs = Element::kPositions == 2;
  WeightGradientScratch scratch;
  const auto add_chunk = [&](int64_t first, int64_t count) {
    for (int64_t row = begin; row < end; row += kWeightGradientRows) {
      const int64_t rows = std::min(kWeightGradientRows, end - row);
      Transpose<V>(dy + first * n + row, n, count, rows, scratch.dy, kTokenChunk);
      RoundTransposed<V>(count, rows, Element{}, scratch.dy);
      for (int64_t column = 0; column < k; column += kPanelWidth) {
        const int64_t width = std::min(kPanelWidth, k - column);
        for (int64_t t = 0; t < count; ++t) {
          const float* from = x + (first + t) * k + column;
          float* to = scratch.columns + t * kPanelWidth;
          if (width == kPanelWidth) {
            std::copy_n(from, kPanelWidth, to);
          } else {
            std::copy_n(from, width, to);
            std::fill(to + width, to + kPanelWidth, 0.0f);
          }
        }
        if constexpr (kPairs) CombinePairs<V>(scratch.columns, count, scratch.panel);
        AddWeightGradientTile<V, Element>(scratch, count, rows, width, dw + row * k + column, k);
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
