#ifndef LOCKSTEP_KERNELS_CPU_EMBEDDING_H_
#define LOCKSTEP_KERNELS_CPU_EMBEDDING_H_

#include <bit>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/bf16.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// One row of the packed table, unpacked. A copy. (Templates over V only so that each instruction
// set has a copy of its own.)
template <class V>
void EmbeddingRow(const PackedMatrix& table, int64_t token, Fp32Element /*element*/, float* y) {
  const float* from = static_cast<const float*>(table.panels) +
                      token / kPanelWidth * table.k * kPanelWidth + token % kPanelWidth;
  for (int64_t i = 0; i < table.k; ++i) y[i] = from[i * kPanelWidth];
}
template <class V>
void EmbeddingRow(const PackedMatrix& table, int64_t token, Bf16Element /*element*/, float* y) {
  const float* from = static_cast<const float*>(table.panels) +
                      token / kPanelWidth * PanelRows(Profile::kBf16, table.k) * kPanelWidth +
                      token % kPanelWidth;
  for (int64_t i = 0; i < table.k; ++i) {
    const auto pair = std::bit_cast<uint32_t>(from[i / 2 * kPanelWidth]);
    y[i] = WidenBf16(static_cast<uint16_t>(i % 2 == 0 ? pair : pair >> 16));
  }
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
