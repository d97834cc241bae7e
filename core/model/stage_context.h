#ifndef LOCKSTEP_CORE_MODEL_STAGE_CONTEXT_H_
#define LOCKSTEP_CORE_MODEL_STAGE_CONTEXT_H_

#include "core/device/buffer.h"
#include "core/model/model_config.h"
#include "core/model/param_spec.h"
#include "kernels/kernels.h"

namespace lockstep {

// What every forward and backward of one stage runs with. Borrowed parts outlive it. Used by the
// stage's thread alone.
struct StageContext {
  const ModelConfig* config = nullptr;
  StageRange range;
  const kernels::Kernels* kernels = nullptr;
  kernels::Parallel* parallel = nullptr;
  const float* rope_cosine = nullptr;  // [context_length_max, head_dim / 2]
  const float* rope_sine = nullptr;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_STAGE_CONTEXT_H_
