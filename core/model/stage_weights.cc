#include "core/model/stage_weights.h"

namespace lockstep {
namespace {

constexpr int64_t kAlignment = 64;  // what kernels::PackedMatrix asks for

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

int64_t PackedWeightBytes(kernels::Profile profile, int64_t n, int64_t k) {
  return Aligned(kernels::PackedBytes(profile, n, k));
}

int64_t VectorWeightBytes(int64_t size) {
  return Aligned(size * static_cast<int64_t>(sizeof(float)));
}

int64_t StageWeightsBytes(const ModelConfig& config, const StageRange& range,
                          kernels::Profile profile) {
  const auto packed = [profile](int64_t n, int64_t k) { return PackedWeightBytes(profile, n, k); };
  const int64_t hidden = config.hidden_size;
  int64_t layer = packed(config.qkv_width(), hidden) + packed(hidden, config.q_width()) +
                  packed(2 * config.intermediate_size, hidden) +
                  packed(hidden, config.intermediate_size) + 2 * VectorWeightBytes(hidden);
  if (config.qkv_bias) layer += VectorWeightBytes(config.qkv_width());
  if (config.qk_norm) layer += 2 * VectorWeightBytes(config.head_dim);

  int64_t bytes = (range.layer_end - range.layer_begin) * layer;
  const bool shared = config.tie_word_embeddings && range.first;
  if (range.first) bytes += packed(config.vocab_size, hidden);
  if (range.last) bytes += VectorWeightBytes(hidden);
  if (range.last && !shared) bytes += packed(config.vocab_size, hidden);
  return bytes;
}

}  // namespace lockstep
