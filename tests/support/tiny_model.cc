#include "tests/support/tiny_model.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "core/model/hf_directory.h"
#include "core/model/init_model.h"
#include "core/model/philox.h"

namespace lockstep {

std::string Name(TinyFamily family) {
  switch (family) {
    case TinyFamily::kTied:
      return "tied";
    case TinyFamily::kUntied:
      return "untied";
    case TinyFamily::kQwen2:
      return "qwen2";
    case TinyFamily::kQwen3:
      return "qwen3";
  }
  return "";
}

ModelConfig TinyModelConfig(TinyFamily family, int64_t layer_count) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.model_type = "llama";
  config.tie_word_embeddings = family == TinyFamily::kTied || family == TinyFamily::kQwen3;
  if (family == TinyFamily::kQwen2) {
    config.architecture = "Qwen2ForCausalLM";
    config.model_type = "qwen2";
    config.qkv_bias = true;
  }
  if (family == TinyFamily::kQwen3) {
    config.architecture = "Qwen3ForCausalLM";
    config.model_type = "qwen3";
    config.qk_norm = true;
    config.rope_scaling = {.factor = 4, .original_context = 64};
  }
  config.vocab_size = kTinyVocabSize;
  config.hidden_size = 32;
  config.intermediate_size = 52;
  config.layer_count = layer_count;
  config.head_count = 4;
  config.kv_head_count = 2;
  config.head_dim = 16;
  config.context_length_max = 512;
  config.rms_norm_epsilon = 1e-5f;
  config.rope_theta = 1000;
  config.bos_token_id = 1;
  config.eos_token_ids = {2};
  return config;
}

ModelConfig SmolLm2Shape() {
  ModelConfig config = TinyByteLlama();
  config.vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.layer_count = 30;
  config.head_count = 9;
  config.kv_head_count = 3;
  config.head_dim = 64;
  config.context_length_max = 8192;
  return config;
}

void FillTinyTensor(const ParamSpec& spec, uint64_t seed, float* values) {
  const bool norm = absl::EndsWith(spec.name, "norm.weight");
  FillNormal(seed, spec.canonical_begin, spec.size(), 0.25, values);
  if (!norm) return;
  for (int64_t i = 0; i < spec.size(); ++i) values[i] += 1.0f;
}

void FillTinyWeights(uint64_t seed, OptimizerState& state) {
  for (size_t i = 0; i < state.params().size(); ++i) {
    FillTinyTensor(state.params()[i], seed, state.master(static_cast<int>(i)));
  }
}

absl::Status WriteTinyModel(const std::string& directory, const ModelConfig& config, uint64_t seed,
                            const std::string& huge_tensor, float huge_value) {
  std::vector<float> tensor;
  return WriteHfDirectory(directory, "", config, [&](const ParamSpec& spec) {
    tensor.resize(spec.size());
    FillTinyTensor(spec, seed, tensor.data());
    if (spec.name == huge_tensor) std::fill(tensor.begin(), tensor.end(), huge_value);
    return static_cast<const float*>(tensor.data());
  });
}

std::vector<int32_t> TinyTokens(uint64_t seed, int64_t count, int32_t token_end) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(PhiloxUniform(seed, i, 0) * token_end));
  }
  return tokens;
}

}  // namespace lockstep
