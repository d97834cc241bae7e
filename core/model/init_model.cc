#include "core/model/init_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "core/device/buffer.h"
#include "core/model/byte_tokenizer.h"
#include "core/model/hf_export.h"
#include "core/model/param_spec.h"
#include "core/model/philox.h"
#include "kernels/host_math.h"

namespace lockstep {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kTwoPi = 0x1.921fb54442d18p+2;

// Philox's second counter word in use here, far from any sample index, so that a model's seed
// shares no numbers with a generation's.
constexpr uint64_t kInitStream = uint64_t{1} << 63;

void FillTensor(const ModelConfig& config, const ParamSpec& spec, uint64_t seed, float* values) {
  if (spec.rank == 1) {
    std::fill_n(values, spec.size(), 1.0f);
    return;
  }
  const bool ends_branch =
      absl::EndsWith(spec.name, "o_proj.weight") || absl::EndsWith(spec.name, "down_proj.weight");
  const double branches = 2.0 * static_cast<double>(config.layer_count);
  FillNormal(seed, spec.canonical_begin, spec.size(),
             ends_branch ? kDeviation / std::sqrt(branches) : kDeviation, values);
}

}  // namespace

ModelConfig TinyByteLlama() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.model_type = "llama";
  config.vocab_size = ByteTokenizer::kVocabSize;
  config.hidden_size = 128;
  config.intermediate_size = 384;
  config.layer_count = 4;
  config.head_count = 4;
  config.kv_head_count = 2;
  config.head_dim = 32;
  config.context_length_max = 512;
  config.rms_norm_epsilon = 1e-5f;
  config.rope_theta = 10000;
  config.tie_word_embeddings = true;
  config.bos_token_id = ByteTokenizer::kBos;
  config.eos_token_ids = {ByteTokenizer::kEos};
  return config;
}

void FillNormal(uint64_t seed, int64_t canonical_begin, int64_t size, double deviation,
                float* values) {
  for (int64_t i = 0; i < size; ++i) {
    const auto word = PhiloxBlock(seed, static_cast<uint64_t>(canonical_begin + i), kInitStream);
    // Box and Muller 1958, one of its two: uniforms of 32 and 32 bits, the first in (0, 1].
    const double u = (static_cast<double>(word[0]) + 1.0) * 0x1p-32;
    const double v = static_cast<double>(word[1]) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * kernels::host::Log(u));
    values[i] = static_cast<float>(deviation * radius * kernels::host::Cos(kTwoPi * v));
  }
}

absl::Status InitModel(const std::string& directory, const ModelConfig& config, uint64_t seed) {
  std::vector<TextFile> texts = {
      {"config.json", MakeConfigJson(config)},
      {"generation_config.json", MakeGenerationConfigJson(config)},
  };
  if (config.vocab_size == ByteTokenizer::kVocabSize) {
    texts.push_back({"tokenizer.json", ByteTokenizer::TokenizerJson()});
    texts.push_back(
        {"tokenizer_config.json", ByteTokenizer::TokenizerConfigJson(config.context_length_max)});
  }
  Buffer<float> tensor;
  return WriteModelDirectory(directory, texts, config, [&](const ParamSpec& spec) {
    tensor.Reserve(spec.size());
    FillTensor(config, spec, seed, tensor.data());
    return static_cast<const float*>(tensor.data());
  });
}

}  // namespace lockstep
