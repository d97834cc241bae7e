#include "core/model/hf_export.h"

#include <charconv>
#include <cstdlib>

#include "core/base/status_macros.h"
#include "core/model/file_io.h"
#include "core/model/safetensors.h"
#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

constexpr int kIndent = 2;

// The shortest decimal that reads back as this float: 1e-5f becomes 1e-05, not
// 9.999999747378752e-06.
double ShortestDecimal(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text) - 1, value);
  *end.ptr = '\0';
  return std::strtod(text, nullptr);
}

ordered_json TokenIds(const std::vector<int32_t>& ids) {
  if (ids.empty()) return nullptr;
  if (ids.size() == 1) return ids[0];
  return ids;
}

ordered_json TokenId(int32_t id) { return id < 0 ? ordered_json(nullptr) : ordered_json(id); }

}  // namespace

std::string MakeConfigJson(const ModelConfig& config) {
  ordered_json json = {
      {"architectures", {config.architecture}},
      {"model_type", config.model_type},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.layer_count},
      {"num_attention_heads", config.head_count},
      {"num_key_value_heads", config.kv_head_count},
      {"head_dim", config.head_dim},
      {"max_position_embeddings", config.context_length_max},
      {"rms_norm_eps", ShortestDecimal(config.rms_norm_epsilon)},
      {"rope_theta", config.rope_theta},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"bos_token_id", TokenId(config.bos_token_id)},
      {"eos_token_id", TokenIds(config.eos_token_ids)},
      {"torch_dtype", "float32"},
  };
  if (config.model_type == "mistral") json["sliding_window"] = nullptr;
  if (config.rope_scaling.has_value()) {
    json["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", config.rope_scaling->factor},
        {"low_freq_factor", config.rope_scaling->low_frequency_factor},
        {"high_freq_factor", config.rope_scaling->high_frequency_factor},
        {"original_max_position_embeddings",
         static_cast<int64_t>(config.rope_scaling->original_context)},
    };
  }
  return json.dump(kIndent) + "\n";
}

std::string MakeGenerationConfigJson(const ModelConfig& config) {
  const ordered_json json = {
      {"bos_token_id", TokenId(config.bos_token_id)},
      {"eos_token_id", TokenIds(config.eos_token_ids)},
  };
  return json.dump(kIndent) + "\n";
}

absl::Status WriteModelDirectory(const std::string& directory, absl::Span<const TextFile> texts,
                                 const ModelConfig& config,
                                 absl::FunctionRef<const float*(const ParamSpec&)> values) {
  LOCKSTEP_ASSIGN_OR_RETURN(AtomicDirectory output, AtomicDirectory::Create(directory));
  for (const TextFile& text : texts) {
    LOCKSTEP_RETURN_IF_ERROR(output.WriteFile(text.name, text.contents));
  }
  const std::vector<ParamSpec> params = ModelParams(config);
  std::vector<SafetensorsPlan> plans;
  for (const ParamSpec& spec : params) plans.push_back({spec.name, ShapeInFile(spec)});
  LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                            SafetensorsWriter::Create(output.PathOf("model.safetensors"), plans));
  for (const ParamSpec& spec : params) {
    LOCKSTEP_RETURN_IF_ERROR(writer.Append({values(spec), static_cast<size_t>(spec.size())}));
  }
  LOCKSTEP_RETURN_IF_ERROR(writer.Finish());
  return output.Commit();
}

std::vector<int64_t> ShapeInFile(const ParamSpec& spec) {
  if (spec.rank == 1) return {spec.cols};
  return {spec.rows, spec.cols};
}

}  // namespace lockstep
