#ifndef LOCKSTEP_CORE_MODEL_MODEL_CONFIG_H_
#define LOCKSTEP_CORE_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

// Llama 3.1's stretching of the rotary embedding (transformers' rope_type "llama3"): frequencies
// whose wave is longer than original_context / low_frequency_factor are divided by `factor`, those
// shorter than original_context / high_frequency_factor stay, between the two a blend.
struct Llama3RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_context = 8192;  // positions

  bool operator==(const Llama3RopeScaling&) const = default;
};

// The shape of a model, from the config.json (and generation_config.json) of a Hugging Face
// directory. A plain value.
struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", ...
  std::string model_type;    // as the same file calls it: "llama", "mistral", "qwen2", "qwen3"
  int64_t vocab_size = 0;    // V
  int64_t hidden_size = 0;   // H
  int64_t intermediate_size = 0;
  int64_t layer_count = 0;  // L
  int64_t head_count = 0;
  int64_t kv_head_count = 0;
  int64_t head_dim = 0;
  int64_t context_length_max = 0;  // positions, "max_position_embeddings"
  float rms_norm_epsilon = 0;
  double rope_theta = 0;
  std::optional<Llama3RopeScaling> rope_scaling;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;      // query, key and value products add a bias (Qwen2)
  bool qk_norm = false;       // heads of query and key are normed before they are rotated (Qwen3)
  int32_t bos_token_id = -1;  // -1: none
  std::vector<int32_t> eos_token_ids;

  int64_t q_width() const { return head_count * head_dim; }
  int64_t kv_width() const { return kv_head_count * head_dim; }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

// Reads the two spellings (current transformers with "rope_parameters" and "dtype", older ones
// with "rope_theta", "rope_scaling" and "torch_dtype"). What the file asks for and this build
// lacks is UNIMPLEMENTED naming field and value; what makes no sense is INVALID_ARGUMENT.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& model_directory);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_MODEL_CONFIG_H_
