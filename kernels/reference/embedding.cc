// Token embedding: a copy forward (of what Pack has rounded, in profile bf16), a scatter-add in row
// order backward.

#include "kernels/fp_environment.h"
#include "kernels/reference/panels.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/scalar.h"

namespace lockstep::kernels::reference {

void ReferenceKernels::Embedding(Parallel& /*parallel*/, absl::Span<const int32_t> token_ids,
                                 const PackedMatrix& table, float* y) const {
  for (size_t row = 0; row < token_ids.size(); ++row) {
    for (int64_t i = 0; i < table.k; ++i) {
      y[row * table.k + i] = Element(profile_, table, token_ids[row], i);
    }
  }
}

void ReferenceKernels::EmbeddingBackward(Parallel& /*parallel*/,
                                         absl::Span<const int32_t> token_ids, const float* dy,
                                         int64_t k, float* dtable) const {
  FpEnvironment environment;
  for (size_t row = 0; row < token_ids.size(); ++row) {
    float* entry = dtable + token_ids[row] * k;
    for (int64_t i = 0; i < k; ++i) entry[i] = Finish(entry[i] + dy[row * k + i]);
  }
}

}  // namespace lockstep::kernels::reference
