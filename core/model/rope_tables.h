#ifndef LOCKSTEP_CORE_MODEL_ROPE_TABLES_H_
#define LOCKSTEP_CORE_MODEL_ROPE_TABLES_H_

#include "core/model/model_config.h"
#include "kernels/host_math.h"

namespace lockstep {

// The cosines and sines of a model's rotary embedding, for every position of its context. Depends
// on the configuration alone, so stages that make their own have the same bits. Immutable.
class RopeTables {
 public:
  explicit RopeTables(const ModelConfig& config);

  // [context_length_max, head_dim / 2].
  const float* cosine() const { return tables_.cosine.data(); }
  const float* sine() const { return tables_.sine.data(); }

 private:
  const kernels::host::RopeTables tables_;
};

// A frequency (radians a position) as `scaling` stretches it, with the rounding points of
// transformers, which works in fp32.
float StretchedFrequency(const Llama3RopeScaling& scaling, float frequency);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_ROPE_TABLES_H_
