#ifndef LOCKSTEP_KERNELS_CPU_MATMUL_H_
#define LOCKSTEP_KERNELS_CPU_MATMUL_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "kernels/cpu/element.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/product_tile.h"
#include "kernels/cpu/row_tiles.h"
#include "kernels/cpu/transpose.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Matrix products over packed panels. A chunk of kReduceChunk reduced positions is one chain
// (product_tile.h); chunk sums are added ascending; the total is finished (math.h). Blocking over
// rows and panels only says in which order independent outputs are visited.
//
// A row of a panel is kPanelWidth lanes of 32 bits: one reduced position in floats, two in bf16.
// Panels are passed as `const float*` in either case: lanes to load. So are the rows of the other
// operand, whose lanes are broadcast (element.h).

// Rows that share one pass over a panel. 128 rows of a chunk (256 KiB) stay in half of a 512 KiB L2
// while panels stream past; a 64 KiB panel chunk read once per 128 rows costs 0.5 bytes a cycle.
inline constexpr int64_t kProductRows = 128;

// Positions in a lane of the operand that is broadcast.
template <class Element>
inline constexpr int64_t kOperandPositions = Element::kPositions / Element::kSteps;

inline const float* PanelLanes(const PackedMatrix& w) {
  return static_cast<const float*>(w.panels);
}

// y[r * y_stride + j](=) for r in [0, rows), j in [0, width): rows of x, x_stride lanes apart,
// times one panel. `chunk_of(begin, count)` gives the panel's rows that hold reduced positions
// [begin, begin + count). REQUIRES: rows <= kProductRows, width <= kPanelWidth; in bf16 x is
// rounded, and its rows hold an even number of elements.
template <class V, class Element, class ChunkOf>
void MultiplyPanel(const float* x, int64_t x_stride, int64_t rows, int64_t reduced,
                   ChunkOf chunk_of, float* y, int64_t y_stride, int64_t width) {
  alignas(64) float totals[kProductRows * kPanelWidth];
  for (int64_t begin = 0; begin < reduced; begin += kReduceChunk) {
    const int64_t count = std::min(kReduceChunk, reduced - begin);
    const float* panel = chunk_of(begin, count);
    const bool first = begin == 0;
    const bool last = begin + count == reduced;
    ForRowTiles<kTileRows<V, Element>>(rows, [&]<int64_t kRows>(int64_t row) {
      Tile<V, kRows> tile;
      RunChains<Element>(x + row * x_stride + begin / kOperandPositions<Element>, x_stride, panel,
                         PanelRows(Element::kProfile, count), tile);
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

// panel[ceil(count / 2), kPanelWidth](=): positions[count, kPanelWidth] rounded to bf16 and
// combined into pairs; an odd last one is paired with zeros.
template <class V>
void CombinePairs(const float* positions, int64_t count, float* panel) {
  const V zero = V::Zero();
  for (int64_t i = 0; i < count; i += 2, positions += 2 * kPanelWidth, panel += kPanelWidth) {
    for (int64_t lane = 0; lane < kPanelWidth; lane += V::kLanes) {
      const V odd = i + 1 < count ? V::Load(positions + kPanelWidth + lane) : zero;
      PairOf(V::Load(positions + lane), odd).Store(panel + lane);
    }
  }
}

// panels [begin, end) of the packed form of w[n, k].
template <class V, class Element>
void PackPanels(const float* w, int64_t n, int64_t k, int64_t begin, int64_t end, float* panels) {
  constexpr bool kPairs = Element::kPositions == 2;
  alignas(64) float scratch[kPairs ? kReduceChunk * kPanelWidth : 1];
  for (int64_t p = begin; p < end; ++p) {
    float* panel = panels + p * PanelRows(Element::kProfile, k) * kPanelWidth;
    const int64_t width = std::min(kPanelWidth, n - p * kPanelWidth);
    for (int64_t first = 0; first < k; first += kReduceChunk) {
      const int64_t count = std::min(kReduceChunk, k - first);
      float* rows = kPairs ? scratch : panel + first * kPanelWidth;
      Transpose<V>(w + p * kPanelWidth * k + first, k, width, count, rows, kPanelWidth);
      for (int64_t i = 0; width < kPanelWidth && i < count; ++i) {
        std::fill(rows + i * kPanelWidth + width, rows + (i + 1) * kPanelWidth, 0.0f);
      }
      if constexpr (kPairs) CombinePairs<V>(scratch, count, panel + first / 2 * kPanelWidth);
    }
  }
}

// Panel `p` of y[m, n](=) = x[m, k] · w^T, rows [row, row + rows). x has `x_stride` lanes a row.
template <class V, class Element>
void MatMulBlock(const float* x, int64_t x_stride, const PackedMatrix& w, int64_t row, int64_t rows,
                 int64_t p, float* y) {
  const float* panel = PanelLanes(w) + p * PanelRows(Element::kProfile, w.k) * kPanelWidth;
  MultiplyPanel<V, Element>(
      x + row * x_stride, x_stride, rows, w.k,
      [panel](int64_t begin, int64_t /*count*/) {
        return panel + begin / Element::kPositions * kPanelWidth;
      },
      y + row * w.n + p * kPanelWidth, w.n, std::min(kPanelWidth, w.n - p * kPanelWidth));
}

// A square of panel rows for the transposed product, lanes across k: rows hold n in [first_n,
// first_n + 32), lanes k in [first_k, first_k + width). `count` is how many n there are.
// REQUIRES: first_n and first_k are multiples of 32.
template <class V>
void TransposeSquareOf(const PackedMatrix& w, int64_t first_n, int64_t count, int64_t first_k,
                       int64_t width, Fp32Element /*element*/, float* to) {
  Transpose<V>(PanelLanes(w) + first_n * w.k + first_k * kPanelWidth, kPanelWidth, width, count, to,
               kPanelWidth);
}
// From pairs of k, lanes across n, to pairs of n, lanes across k.
template <class V>
void TransposeSquareOf(const PackedMatrix& w, int64_t first_n, int64_t count, int64_t first_k,
                       int64_t width, Bf16Element /*element*/, float* to) {
  const float* from =
      PanelLanes(w) +
      (first_n / kPanelWidth * PanelRows(Profile::kBf16, w.k) + first_k / 2) * kPanelWidth;
  for (int64_t n = 0; n < count; n += 2, to += kPanelWidth) {
    for (int64_t k = 0; k < width; k += 2) {
      const auto even = std::bit_cast<uint32_t>(from[k / 2 * kPanelWidth + n]);
      const auto odd = std::bit_cast<uint32_t>(from[k / 2 * kPanelWidth + n + 1]);
      to[k] = std::bit_cast<float>((even & 0xffff) | odd << 16);
      to[k + 1] = std::bit_cast<float>(even >> 16 | (odd & 0xffff0000));
    }
  }
}

// Columns [32 * p, 32 * p + 32) of dx[m, k](=) = dy[m, n] · w, rows [row, row + rows). The panel it
// needs, lanes across k, is a transposed copy of 32 x 32 squares of the forward panels, made chunk
// by chunk. dy has `dy_stride` lanes a row.
template <class V, class Element>
void MatMulBackwardInputBlock(const float* dy, int64_t dy_stride, const PackedMatrix& w,
                              int64_t row, int64_t rows, int64_t p, float* dx) {
  alignas(64) float scratch[kReduceChunk * kPanelWidth];
  const int64_t first_k = p * kPanelWidth;
  const int64_t width = std::min(kPanelWidth, w.k - first_k);
  const auto transposed = [&](int64_t begin, int64_t count) -> const float* {
    if (width < kPanelWidth) std::fill(std::begin(scratch), std::end(scratch), 0.0f);
    for (int64_t i = 0; i < count; i += kPanelWidth) {
      TransposeSquareOf<V>(w, begin + i, std::min(kPanelWidth, count - i), first_k, width,
                           Element{}, scratch + PanelRows(Element::kProfile, i) * kPanelWidth);
    }
    return scratch;
  };
  MultiplyPanel<V, Element>(dy + row * dy_stride, dy_stride, rows, w.n, transposed,
                            dx + row * w.k + first_k, w.k, width);
}

constexpr int64_t EvenOf(int64_t k) { return (k + 1) / 2 * 2; }

// to[EvenOf(k)](=): from[k] rounded to bf16, and a zero that makes their number even; as floats or
// as bf16. `to` may begin where `from` does.
template <class V, class T>
void RoundRow(const float* from, int64_t k, T* to) {
  RoundElements<V>(from, k, to);
  // Not an assignment, which would be a uint16_t among what is read as 32-bit lanes.
  if (k % 2 != 0) std::memset(to + k, 0, sizeof(T));
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_MATMUL_H_
