#ifndef LOCKSTEP_KERNELS_REFERENCE_ATTENTION_SCORES_H_
#define LOCKSTEP_KERNELS_REFERENCE_ATTENTION_SCORES_H_

#include <cmath>
#include <cstdint>

#include "kernels/reference/kv_reader.h"

namespace lockstep::kernels::reference {

// Attention score of one query head against the key at `position`: an FMA chain over the head
// dimension, times the scale. Forward and backward must agree on it bit by bit.
inline float Score(const float* query, const KvReader& kv, int64_t kv_head, int64_t position,
                   int64_t head_dim, float scale) {
  float chain = 0.0f;
  for (int64_t d = 0; d < head_dim; ++d) {
    chain = std::fma(query[d], kv.Key(kv_head, position, d), chain);
  }
  return chain * scale + 0.0f;
}

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_ATTENTION_SCORES_H_
