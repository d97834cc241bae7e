#ifndef LOCKSTEP_CORE_MODEL_STAGE_WEIGHTS_H_
#define LOCKSTEP_CORE_MODEL_STAGE_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/model/model_config.h"
#include "core/model/param_spec.h"
#include "kernels/kernels.h"

namespace lockstep {

struct LayerWeights {
  absl::Span<const float> input_norm;           // [H]
  kernels::PackedMatrix qkv;                    // [q_width + 2 kv_width, H]
  absl::Span<const float> qkv_bias;             // [q_width + 2 kv_width], empty without
  absl::Span<const float> query_norm;           // [head_dim], empty without
  absl::Span<const float> key_norm;             // [head_dim], empty without
  kernels::PackedMatrix attention_out;          // [H, q_width]
  absl::Span<const float> post_attention_norm;  // [H]
  kernels::PackedMatrix gate_up;                // [2F, H]
  kernels::PackedMatrix down;                   // [H, F]
};

// The compute weights of one pipeline stage at one weight version. Immutable once made; the
// optimizer writes the next version beside it. Shared between the stage's current state and every
// request that pinned this version: the last one to let go frees the memory.
struct StageWeights {
  uint64_t version = 0;
  kernels::PackedMatrix embedding;  // [V, H], first stage
  std::vector<LayerWeights> layers;
  absl::Span<const float> final_norm;  // [H], last stage
  kernels::PackedMatrix head;          // [V, H], last stage; empty when `head_is_embedding`
  bool head_is_embedding = false;      // tied, and this stage holds both ends

  // All that the above point into. One block, so that the kernel can back it with huge pages.
  Buffer<uint8_t> memory;

  kernels::PackedMatrix head_matrix() const { return head_is_embedding ? embedding : head; }
};

// Bytes that a matrix or a vector takes up in StageWeights::memory.
int64_t PackedWeightBytes(kernels::Profile profile, int64_t n, int64_t k);
int64_t VectorWeightBytes(int64_t size);

// Size of StageWeights::memory.
int64_t StageWeightsBytes(const ModelConfig& config, const StageRange& range,
                          kernels::Profile profile);

// What a forward reads: base weights now, an optional adapter later. Cheap to copy.
struct WeightView {
  std::shared_ptr<const StageWeights> base;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_STAGE_WEIGHTS_H_
