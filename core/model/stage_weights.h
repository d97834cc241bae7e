#ifndef LOCKSTEP_CORE_MODEL_STAGE_WEIGHTS_H_
#define LOCKSTEP_CORE_MODEL_STAGE_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/device/buffer.h"
#include "core/model/model_config.h"
#include "core/model/param_spec.h"
#include "kernels/kernels.h"

namespace lockstep {

// A packed compute weight that owns its memory.
class PackedWeight {
 public:
  PackedWeight() = default;
  PackedWeight(const kernels::Kernels& kernels, kernels::Parallel& parallel, const float* rows,
               int64_t n, int64_t k);

  kernels::PackedMatrix matrix() const { return {panels_.data(), n_, k_}; }
  int64_t bytes() const { return panels_.size(); }

 private:
  Buffer<uint8_t> panels_;
  int64_t n_ = 0;
  int64_t k_ = 0;
};

struct LayerWeights {
  Buffer<float> input_norm;           // [H]
  PackedWeight qkv;                   // [q_width + 2 kv_width, H]
  Buffer<float> qkv_bias;             // [q_width + 2 kv_width], empty without
  Buffer<float> query_norm;           // [head_dim], empty without
  Buffer<float> key_norm;             // [head_dim], empty without
  PackedWeight attention_out;         // [H, q_width]
  Buffer<float> post_attention_norm;  // [H]
  PackedWeight gate_up;               // [2F, H]
  PackedWeight down;                  // [H, F]
};

// The compute weights of one pipeline stage at one weight version. Immutable once made; the
// optimizer writes the next version beside it. Shared between the stage's current state and every
// request that pinned this version: the last one to let go frees the memory.
struct StageWeights {
  uint64_t version = 0;
  PackedWeight embedding;  // [V, H], first stage
  std::vector<LayerWeights> layers;
  Buffer<float> final_norm;        // [H], last stage
  PackedWeight head;               // [V, H], last stage; empty when `head_is_embedding`
  bool head_is_embedding = false;  // tied, and this stage holds both ends

  kernels::PackedMatrix head_matrix() const {
    return head_is_embedding ? embedding.matrix() : head.matrix();
  }
  int64_t bytes() const;
};

// What a forward reads: base weights now, an optional adapter later. Cheap to copy.
struct WeightView {
  std::shared_ptr<const StageWeights> base;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_STAGE_WEIGHTS_H_
