#include "core/model/stage_weights.h"

namespace lockstep {

PackedWeight::PackedWeight(const kernels::Kernels& kernels, kernels::Parallel& parallel,
                           const float* rows, int64_t n, int64_t k)
    : panels_(kernels::PackedBytes(kernels.profile(), n, k)), n_(n), k_(k) {
  kernels.Pack(parallel, rows, n, k, panels_.data());
}

int64_t StageWeights::bytes() const {
  int64_t vectors = final_norm.size();
  int64_t total = embedding.bytes() + head.bytes();
  for (const LayerWeights& layer : layers) {
    vectors += layer.input_norm.size() + layer.qkv_bias.size() + layer.query_norm.size() +
               layer.key_norm.size() + layer.post_attention_norm.size();
    total += layer.qkv.bytes() + layer.attention_out.bytes() + layer.gate_up.bytes() +
             layer.down.bytes();
  }
  return total + vectors * static_cast<int64_t>(sizeof(float));
}

}  // namespace lockstep
