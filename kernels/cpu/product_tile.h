#ifndef LOCKSTEP_KERNELS_CPU_PRODUCT_TILE_H_
#define LOCKSTEP_KERNELS_CPU_PRODUCT_TILE_H_

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// The register tile under every matrix product: rows of one operand, broadcast element by element,
// against a panel that is kPanelWidth outputs wide. One tile output is one FMA chain from +0 over
// the reduced index; rows and lanes are independent chains, so how rows are
// grouped into tiles moves no bit.

template <class V>
inline constexpr int64_t kPanelVectors = kPanelWidth / V::kLanes;

template <class V, int64_t kRows>
struct Tile {
  V sum[kRows][kPanelVectors<V>];
};

// Step kStep (element.h) of row `i` of a panel, whose lanes `panel` points at, into every chain of
// a tile. What there is less of stays in registers, the operand's lanes or the panel's.
template <class Element, int64_t kStep, class V, int64_t kRows>
[[gnu::always_inline]] inline void ExtendChains(const float* rows, int64_t stride, int64_t i,
                                                const float* panel,
                                                V (&sum)[kRows][kPanelVectors<V>]) {
  const auto factor = [&](int64_t r) {
    return V::Broadcast(rows[r * stride + i * Element::kSteps + kStep]);
  };
  const auto weight = [&](int64_t v) {
    const V lanes = V::Load(panel + v * V::kLanes);
    if constexpr (Element::kSteps == 1) {
      return lanes;
    } else {
      return Element::template Weight<kStep>(lanes);
    }
  };
  if constexpr (kRows < kPanelVectors<V>) {
    V factors[kRows];
    for (int64_t r = 0; r < kRows; ++r) factors[r] = factor(r);
    for (int64_t v = 0; v < kPanelVectors<V>; ++v) {
      const V w = weight(v);
      for (int64_t r = 0; r < kRows; ++r) sum[r][v] = Element::Extend(factors[r], w, sum[r][v]);
    }
  } else {
    V weights[kPanelVectors<V>];
    for (int64_t v = 0; v < kPanelVectors<V>; ++v) weights[v] = weight(v);
    for (int64_t r = 0; r < kRows; ++r) {
      const V f = factor(r);
      for (int64_t v = 0; v < kPanelVectors<V>; ++v) {
        sum[r][v] = Element::Extend(f, weights[v], sum[r][v]);
      }
    }
  }
}

// tile[r] = the chain of row r over `count` rows of a panel, in the order of the profile: position
// by position, in bf16 the odd one of a pair first. In bf16 rows hold numbers that are rounded
// already, and an even number of them. `stride` counts 32-bit lanes.
//
// Never inlined: the loop needs every register there is, and a caller's constants would push one of
// the sums into memory.
template <class Element, class V, int64_t kRows>
[[gnu::noinline]] void RunChains(const float* rows, int64_t stride, const float* panel,
                                 int64_t count, Tile<V, kRows>& tile) {
  V sum[kRows][kPanelVectors<V>];
  for (auto& row : sum) {
    for (V& lanes : row) lanes = V::Zero();
  }
  for (int64_t i = 0; i < count; ++i, panel += kPanelWidth) {
    if constexpr (Element::kSteps == 2) ExtendChains<Element, 1>(rows, stride, i, panel, sum);
    ExtendChains<Element, 0>(rows, stride, i, panel, sum);
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kPanelVectors<V>; ++v) tile.sum[r][v] = sum[r][v];
  }
}

template <class V, class Element>
inline constexpr int64_t kTileRows = Element::kSteps == 2 ? V::kTileRowsWidening : V::kTileRows;

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_PRODUCT_TILE_H_
