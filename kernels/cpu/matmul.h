#ifndef LOCKSTEP_KERNELS_CPU_MATMUL_H_
#define LOCKSTEP_KERNELS_CPU_MATMUL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/math.h"
#include "kernels/cpu/product_tile.h"
#include "kernels/cpu/transpose.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Matrix products over packed panels. A chunk of kReduceChunk reduced positions is one chain
// (product_tile.h); chunk sums are added ascending; the total is finished (math.h). Blocking over
// rows and panels only says in which order independent outputs are visited.

// Rows that share one pass over a panel. 128 rows of a chunk (256 KiB) stay in half of a 512 KiB L2
// while panels stream past; a 64 KiB panel chunk read once per 128 rows costs 0.5 bytes a cycle.
inline constexpr int64_t kProductRows = 128;

// y[r * y_stride + j](=) for r in [0, rows), j in [0, width): rows of x times one panel.
// `chunk_of(begin, count)` gives the panel's rows [begin, begin + count) of the reduced index.
// REQUIRES: rows <= kProductRows, width <= kPanelWidth.
template <class V, class ChunkOf>
void MultiplyPanel(const float* x, int64_t x_stride, int64_t rows, int64_t reduced,
                   ChunkOf chunk_of, float* y, int64_t y_stride, int64_t width) {
  alignas(64) float totals[kProductRows * kPanelWidth];
  for (int64_t begin = 0; begin < reduced; begin += kReduceChunk) {
    const int64_t count = std::min(kReduceChunk, reduced - begin);
    const float* panel = chunk_of(begin, count);
    const bool first = begin == 0;
    const bool last = begin + count == reduced;
    ForRowTiles<V>(rows, [&]<int64_t kRows>(int64_t row) {
      Tile<V, kRows> tile;
      RunChains(x + row * x_stride + begin, x_stride, panel, count, tile);
      for (int64_t r = 0; r < kRows; ++r) {
        float* total = totals + (row + r) * kPanelWidth;
        float* out = y + (row + r) * y_stride;
        for (int64_t v = 0; v < kPanelVectors<V>; ++v) {
          const int64_t lane = v * V::kLanes;
          V sum = tile.sum[r][v];
          if (!first) sum = V::Load(total + lane) + sum;
          if (!last) {
            sum.Store(total + lane);
          } else if (lane + V::kLanes <= width) {
            Finish(sum).Store(out + lane);
          } else if (lane < width) {
            Finish(sum).StoreFirst(out + lane, width - lane);
          }
        }
      }
    });
  }
}

// panels [begin, end) of the packed form of w[n, k]. A copy.
template <class V>
void PackPanels(const float* w, int64_t n, int64_t k, int64_t begin, int64_t end, float* panels) {
  for (int64_t p = begin; p < end; ++p) {
    float* panel = panels + p * k * kPanelWidth;
    const int64_t width = std::min(kPanelWidth, n - p * kPanelWidth);
    Transpose<V>(w + p * kPanelWidth * k, k, width, k, panel, kPanelWidth);
    if (width == kPanelWidth) continue;
    for (int64_t i = 0; i < k; ++i) {
      std::fill(panel + i * kPanelWidth + width, panel + (i + 1) * kPanelWidth, 0.0f);
    }
  }
}

// Panel `p` of y[m, n](=) = x[m, k] · w^T, rows [row, row + rows).
template <class V>
void MatMulBlock(const float* x, const PackedMatrix& w, int64_t row, int64_t rows, int64_t p,
                 float* y) {
  const float* panel = w.panels + p * w.k * kPanelWidth;
  MultiplyPanel<V>(
      x + row * w.k, w.k, rows, w.k,
      [panel](int64_t begin, int64_t /*count*/) { return panel + begin * kPanelWidth; },
      y + row * w.n + p * kPanelWidth, w.n, std::min(kPanelWidth, w.n - p * kPanelWidth));
}

// Columns [32 * p, 32 * p + 32) of dx[m, k](=) = dy[m, n] · w, rows [row, row + rows). The panel it
// needs, lanes across k, is a transposed copy of 32 x 32 squares of the forward panels, made chunk
// by chunk.
template <class V>
void MatMulBackwardInputBlock(const float* dy, const PackedMatrix& w, int64_t row, int64_t rows,
                              int64_t p, float* dx) {
  alignas(64) float scratch[kReduceChunk * kPanelWidth];
  const int64_t first_k = p * kPanelWidth;
  const int64_t width = std::min(kPanelWidth, w.k - first_k);
  const auto transposed = [&](int64_t begin, int64_t count) -> const float* {
    if (width < kPanelWidth) std::fill(scratch, scratch + count * kPanelWidth, 0.0f);
    for (int64_t i = 0; i < count; i += kPanelWidth) {
      const float* square =
          w.panels + (begin + i) * w.k + first_k * kPanelWidth;  // begin + i: a multiple of 32
      Transpose<V>(square, kPanelWidth, width, std::min(kPanelWidth, count - i),
                   scratch + i * kPanelWidth, kPanelWidth);
    }
    return scratch;
  };
  MultiplyPanel<V>(dy + row * w.n, w.n, rows, w.n, transposed, dx + row * w.k + first_k, w.k,
                   width);
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_MATMUL_H_
