#ifndef LOCKSTEP_KERNELS_CPU_TOKEN_COLUMNS_H_
#define LOCKSTEP_KERNELS_CPU_TOKEN_COLUMNS_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Gradients of vectors: sums over tokens, lanes across columns. Columns [begin, end) of total(+=):
// per datum chunk one chain per column, chain = extend(row, column, lanes, chain) for rows
// ascending; finished chunks are added ascending.
template <class V, class Extend>
void AddTokenColumns(absl::Span<const int64_t> datum_begins, int64_t begin, int64_t end,
                     float* total, Extend extend) {
  // Chains side by side, enough to hide the latency of an FMA.
  constexpr int64_t kVectors = 8;
  constexpr int64_t kColumns = kVectors * V::kLanes;
  const auto add_chunk = [&](int64_t column, int64_t first, int64_t count) {
    V chains[kVectors];
    for (V& chain : chains) chain = V::Zero();
    const int64_t columns = std::min(kColumns, end - column);
    for (int64_t row = first; row < first + count; ++row) {
      if (columns == kColumns) {
        for (int64_t v = 0; v < kVectors; ++v) {
          chains[v] = extend(row, column + v * V::kLanes, AllLanes<V>{}, chains[v]);
        }
      } else {
        for (int64_t v = 0; v * V::kLanes < columns; ++v) {
          const FirstLanes<V> lanes{std::min(V::kLanes, columns - v * V::kLanes)};
          chains[v] = extend(row, column + v * V::kLanes, lanes, chains[v]);
        }
      }
    }
    ForEachVector<V>(columns, [&](int64_t i, auto lanes) {
      float* out = total + column + i;
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

#endif  // LOCKSTEP_KERNELS_CPU_TOKEN_COLUMNS_H_
