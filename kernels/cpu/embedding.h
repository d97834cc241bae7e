#ifndef LOCKSTEP_KERNELS_CPU_EMBEDDING_H_
#define LOCKSTEP_KERNELS_CPU_EMBEDDING_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// One row of the packed table, unpacked. A copy. (A template only so that each instruction set has
// a copy of its own.)
template <class V>
void EmbeddingRow(const PackedMatrix& table, int64_t token, float* y) {
  const float* from =
      table.panels + token / kPanelWidth * table.k * kPanelWidth + token % kPanelWidth;
  for (int64_t i = 0; i < table.k; ++i) y[i] = from[i * kPanelWidth];
}

// Columns [begin, end) of dtable (+=): rows of dy added one by one, ascending.
template <class V>
void EmbeddingBackwardColumns(absl::Span<const int32_t> token_ids, const float* dy, int64_t k,
                              int64_t begin, int64_t end, float* dtable) {
  for (size_t row = 0; row < token_ids.size(); ++row) {
    const float* from = dy + row * k + begin;
    float* to = dtable + token_ids[row] * k + begin;
    ForEachVector<V>(end - begin, [&](int64_t i, auto lanes) {
      lanes.Store(Finish(lanes.Load(to + i) + lanes.Load(from + i)), to + i);
    });
  }
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_EMBEDDING_H_
