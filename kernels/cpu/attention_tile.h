#ifndef LOCKSTEP_KERNELS_CPU_ATTENTION_TILE_H_
#define LOCKSTEP_KERNELS_CPU_ATTENTION_TILE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/row_tiles.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// The two products inside attention, forward and backward, for a tile of rows at a time: rows
// against a block of columns (scores and dP, lanes across keys), and weighted sums of rows
// (outputs, dQ, dK, dV, lanes across the head dimension). Every output is one FMA chain from +0 in
// fp32, ascending in every profile; columns and rows may be bf16, widened as they are loaded. Which
// rows share a tile, and so its loads, moves no bit.

// Vectors beside each other in a tile of so many rows: as many as the chains leave registers for.
template <class V>
constexpr int64_t TileVectors(int64_t rows) {
  int64_t vectors = 8;
  while (vectors > 1 && rows * vectors > V::kAttentionChains) vectors /= 2;
  return vectors;
}

// Calls body.template operator()<kVectors>(first) over [0, vectors) in groups of kVectorsMax, the
// rest in smaller ones.
template <int64_t kVectorsMax, class Body>
[[gnu::always_inline]] inline void ForVectorGroups(int64_t vectors, Body body, int64_t first = 0) {
  for (; first + kVectorsMax <= vectors; first += kVectorsMax) {
    body.template operator()<kVectorsMax>(first);
  }
  if constexpr (kVectorsMax > 1) ForVectorGroups<kVectorsMax / 2>(vectors, body, first);
}

// One step of a tile's chains: factors (one a row) times vectors. What there is less of stays in
// registers.
template <class V, int64_t kRows, int64_t kVectors, class Factor, class Vector>
[[gnu::always_inline]] inline void ExtendTile(V (&chains)[kRows][kVectors], Factor factor,
                                              Vector vector) {
  if constexpr (kRows < kVectors) {
    V factors[kRows];
    for (int64_t r = 0; r < kRows; ++r) factors[r] = factor(r);
    for (int64_t v = 0; v < kVectors; ++v) {
      const V lanes = vector(v);
      for (int64_t r = 0; r < kRows; ++r) chains[r][v] = Fma(factors[r], lanes, chains[r][v]);
    }
  } else {
    V vectors[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) vectors[v] = vector(v);
    for (int64_t r = 0; r < kRows; ++r) {
      const V f = factor(r);
      for (int64_t v = 0; v < kVectors; ++v) chains[r][v] = Fma(f, vectors[v], chains[r][v]);
    }
  }
}

// Rows [first, first + kRows) as a tile takes them: to[d * kRows + r](=) = row_at(r)[d].
template <int64_t kRows, class RowAt>
inline void PackTile(RowAt row_at, int64_t depth, float* to) {
  for (int64_t r = 0; r < kRows; ++r) {
    const float* row = row_at(r);
    for (int64_t d = 0; d < depth; ++d) to[d * kRows + r] = row[d];
  }
}

// The columns of a block of keys, a vector at a time: column `lane` of vector v has its element d
// at vectors[v][d * stride + lane].
template <class T>
struct Columns {
  const T* vectors[kAttentionBlock];
  int64_t stride = 0;
};

// out[r * kAttentionBlock + column](=) = sum over d of rows[d * kRows + r] * column[d], for the
// columns of the first `count` vectors. `rows` is from PackTile.
template <class V, int64_t kRows, class T, class Lanes>
void Dots(const float* rows, const Columns<T>& columns, int64_t count, int64_t depth, Lanes lanes,
          float* out) {
  ForVectorGroups<TileVectors<V>(kRows)>(count, [&]<int64_t kVectors>(int64_t first) {
    V chains[kRows][kVectors];
    for (auto& row : chains) {
      for (V& chain : row) chain = V::Zero();
    }
    const T* from[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) from[v] = columns.vectors[first + v];
    const float* factors = rows;
    for (int64_t at = 0; at < depth * columns.stride; at += columns.stride, factors += kRows) {
      ExtendTile<V>(
          chains, [=](int64_t r) { return V::Broadcast(factors[r]); },
          [=](int64_t v) { return lanes.Load(from[v] + at); });
    }
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t v = 0; v < kVectors; ++v) {
        lanes.Store(chains[r][v], out + r * kAttentionBlock + (first + v) * lanes.Count());
      }
    }
  });
}

// chains[r * depth + d], chains that go on over t in [begin, end), ascending:
// weights[r * kRowStep + t * kTermStep] * row_at(t)[d].
template <class V, int64_t kRows, int64_t kRowStep, int64_t kTermStep, class RowAt>
void ExtendWeighted(const float* weights, int64_t begin, int64_t end, int64_t depth, RowAt row_at,
                    float* chains) {
  const auto extend = [&]<int64_t kVectors>(int64_t d, auto lanes) {
    V sums[kRows][kVectors];
    const auto place = [=](int64_t r, int64_t v) { return chains + r * depth + d + v * V::kLanes; };
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = lanes.Load(place(r, v));
    }
    for (int64_t t = begin; t < end; ++t) {
      const auto* row = row_at(t) + d;
      const float* weight = weights + t * kTermStep;
      ExtendTile<V>(
          sums, [=](int64_t r) { return V::Broadcast(weight[r * kRowStep]); },
          [=](int64_t v) { return lanes.Load(row + v * V::kLanes); });
    }
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t v = 0; v < kVectors; ++v) lanes.Store(sums[r][v], place(r, v));
    }
  };
  if (begin >= end) return;
  const int64_t vectors = depth / V::kLanes;
  ForVectorGroups<TileVectors<V>(kRows)>(vectors, [&]<int64_t kVectors>(int64_t first) {
    extend.template operator()<kVectors>(first * V::kLanes, AllLanes<V>{});
  });
  const int64_t rest = depth - vectors * V::kLanes;
  if (rest > 0) extend.template operator()<1>(vectors * V::kLanes, FirstLanes<V>{rest});
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ATTENTION_TILE_H_
