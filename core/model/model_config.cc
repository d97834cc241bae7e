#include "core/model/model_config.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/file_io.h"
#include "core/model/json_fields.h"
#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

// Far above any model, and low enough that no product of two of them overflows.
constexpr int64_t kDimensionMax = int64_t{1} << 24;
constexpr int64_t kLayersMax = 4096;
// A position is the largest rotary angle, and kernels/host_math.h takes angles up to 2^21.
constexpr int64_t kContextMax = int64_t{1} << 21;
constexpr int64_t kConfigBytesMax = int64_t{1} << 20;

absl::StatusOr<json> ReadJson(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kConfigBytesMax));
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(path, ": not JSON"));
  return parsed;
}

// The families served. All are the Llama block with a difference or two.
struct Family {
  const char* architecture;
  const char* model_type;
  bool qkv_bias;
  bool qk_norm;
};
constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", "llama", false, false},
    {"MistralForCausalLM", "mistral", false, false},
    {"Qwen2ForCausalLM", "qwen2", true, false},
    {"Qwen3ForCausalLM", "qwen3", false, true},
};

absl::StatusOr<Family> ReadFamily(const JsonFields& fields) {
  const json* architectures = fields.Find("architectures");
  if (architectures == nullptr) return fields.Invalid("architectures", "is missing");
  std::string served;
  for (const Family& family : kFamilies) {
    absl::StrAppend(&served, served.empty() ? "" : ", ", family.architecture);
    if (*architectures != json::array({family.architecture})) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string type,
                              fields.String("model_type", family.model_type));
    if (type != family.model_type) {
      return fields.Invalid("model_type", "contradicts architectures");
    }
    return family;
  }
  return fields.Lacking("architectures", absl::StrCat("is not served; one of ", served, " is"));
}

// Attention over everything, at last: a window as long as the context, or one that is switched off
// (Qwen's configurations name one and do not use it).
absl::Status CheckNoWindow(const JsonFields& fields, const ModelConfig& config) {
  // transformers takes a window of 4,096 for a Mistral that does not name one; null is none.
  if (config.model_type == "mistral" && !fields.Names("sliding_window")) {
    return fields.Invalid("sliding_window", "is missing");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const bool used, fields.Boolean("use_sliding_window", true));
  if (used && fields.Has("sliding_window")) {
    LOCKSTEP_ASSIGN_OR_RETURN(const int64_t window,
                              fields.Integer("sliding_window", 1, kContextMax));
    if (window < config.context_length_max) {
      return fields.Lacking("sliding_window", "is not served; attention sees the whole context");
    }
  }
  if (const json* types = fields.Find("layer_types"); types != nullptr) {
    for (const json& type : *types) {
      if (type != "full_attention") {
        return fields.Lacking("layer_types", "is not served; only full_attention is");
      }
    }
  }
  return absl::OkStatus();
}

// Features of the configuration that would change the arithmetic and that no kernel here has.
absl::Status CheckNothingLacking(const JsonFields& fields) {
  for (const char* name : {"attention_bias", "mlp_bias", "rope_interleaved"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool asked, fields.Boolean(name, false));
    if (asked) return fields.Lacking(name, "is not served");
  }
  if (fields.Has("quantization_config")) {
    return fields.Lacking("quantization_config", "is not served");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string activation, fields.String("hidden_act", "silu"));
  if (activation != "silu") return fields.Lacking("hidden_act", "is not served; only silu is");
  LOCKSTEP_ASSIGN_OR_RETURN(const double dropout, fields.Real("attention_dropout", 0, 1, 0));
  if (dropout != 0) return fields.Lacking("attention_dropout", "is not served; only 0 is");
  LOCKSTEP_ASSIGN_OR_RETURN(const double rotary, fields.Real("partial_rotary_factor", 0, 1, 1));
  if (rotary != 1) return fields.Lacking("partial_rotary_factor", "is not served; only 1 is");
  for (const char* name : {"dtype", "torch_dtype"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string dtype, fields.String(name, "float32"));
    if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16") {
      return fields.Lacking(name, "is not served; float32, bfloat16 and float16 are");
    }
  }
  return absl::OkStatus();
}

// The scaling that one rope object asks for; none when it is "default".
absl::StatusOr<std::optional<Llama3RopeScaling>> ReadScaling(const JsonFields& outer,
                                                             const std::string& name,
                                                             const JsonFields& rope) {
  // "type" is the older spelling.
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string older, rope.String("type", "default"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, rope.String("rope_type", older));
  LOCKSTEP_ASSIGN_OR_RETURN(const double rotary, rope.Real("partial_rotary_factor", 0, 1, 1));
  if (rotary != 1) return outer.Lacking(name, "is not served; only partial_rotary_factor 1 is");
  // One set of parameters for every kind of layer.
  for (const char* key : {"full_attention", "sliding_attention"}) {
    if (rope.Has(key)) return outer.Lacking(name, "is not served per kind of layer");
  }
  if (type == "default") return std::nullopt;
  if (type != "llama3") {
    return outer.Lacking(name, "is not served; rope_type default and llama3 are");
  }
  constexpr double kFactorMax = 1e6;
  Llama3RopeScaling scaling;
  LOCKSTEP_ASSIGN_OR_RETURN(scaling.factor, rope.Real("factor", 1, kFactorMax));
  LOCKSTEP_ASSIGN_OR_RETURN(scaling.low_frequency_factor,
                            rope.Real("low_freq_factor", 1e-6, kFactorMax));
  LOCKSTEP_ASSIGN_OR_RETURN(scaling.high_frequency_factor,
                            rope.Real("high_freq_factor", 1e-6, kFactorMax));
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    return rope.Invalid("high_freq_factor", "is not above low_freq_factor");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t original,
                            rope.Integer("original_max_position_embeddings", 1, kContextMax));
  scaling.original_context = static_cast<double>(original);
  return scaling;
}

// "rope_parameters": {"rope_theta", "rope_type"} of current transformers, or "rope_theta" beside
// "rope_scaling" of older ones. Both may be there if they agree.
absl::Status ReadRope(const JsonFields& fields, ModelConfig& config) {
  constexpr double kThetaDefault = 10000;
  constexpr double kThetaMax = 1e30;
  LOCKSTEP_ASSIGN_OR_RETURN(config.rope_theta,
                            fields.Real("rope_theta", 1, kThetaMax, kThetaDefault));
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json* object = fields.Find(name);
    if (object == nullptr) continue;
    if (!object->is_object()) return fields.Invalid(name, "is not an object");
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonFields rope,
                              JsonFields::Of(*object, absl::StrCat("config.json: ", name)));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Llama3RopeScaling> scaling,
                              ReadScaling(fields, name, rope));
    if (config.rope_scaling.has_value() && scaling != config.rope_scaling) {
      return fields.Invalid(name, "contradicts rope_scaling");
    }
    config.rope_scaling = scaling;
    if (!rope.Has("rope_theta")) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const double inner, rope.Real("rope_theta", 1, kThetaMax));
    if (fields.Has("rope_theta") && inner != config.rope_theta) {
      return fields.Invalid("rope_theta", absl::StrCat("contradicts ", name, ".rope_theta"));
    }
    config.rope_theta = inner;
  }
  return absl::OkStatus();
}

absl::Status ReadShape(const JsonFields& fields, const Family& family, ModelConfig& config) {
  // transformers has other defaults for each family; every file that it writes spells them out.
  const bool llama = family.architecture == std::string_view("LlamaForCausalLM");
  for (const char* name : {"num_key_value_heads", "max_position_embeddings"}) {
    if (!llama && !fields.Has(name)) return fields.Invalid(name, "is missing");
  }
  if (family.qk_norm && !fields.Has("head_dim")) return fields.Invalid("head_dim", "is missing");
  const auto read = [&fields](const char* name, int64_t highest, int64_t& out) -> absl::Status {
    LOCKSTEP_ASSIGN_OR_RETURN(out, fields.Integer(name, 1, highest));
    return absl::OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(read("vocab_size", kDimensionMax, config.vocab_size));
  LOCKSTEP_RETURN_IF_ERROR(read("hidden_size", kDimensionMax, config.hidden_size));
  LOCKSTEP_RETURN_IF_ERROR(read("intermediate_size", kDimensionMax, config.intermediate_size));
  LOCKSTEP_RETURN_IF_ERROR(read("num_hidden_layers", kLayersMax, config.layer_count));
  LOCKSTEP_RETURN_IF_ERROR(read("num_attention_heads", kDimensionMax, config.head_count));
  LOCKSTEP_ASSIGN_OR_RETURN(config.kv_head_count, fields.Integer("num_key_value_heads", 1,
                                                                 kDimensionMax, config.head_count));
  if (config.head_count % config.kv_head_count != 0) {
    return fields.Invalid(
        "num_key_value_heads",
        absl::StrCat("does not divide the ", config.head_count, " of num_attention_heads"));
  }
  if (!fields.Has("head_dim") && config.hidden_size % config.head_count != 0) {
    return fields.Invalid("num_attention_heads",
                          absl::StrCat("does not divide the ", config.hidden_size,
                                       " of hidden_size, and there is no head_dim"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      config.head_dim,
      fields.Integer("head_dim", 1, kDimensionMax, config.hidden_size / config.head_count));
  if (config.head_dim % 8 != 0) {
    return absl::UnimplementedError(
        absl::StrCat("config.json: head_dim: ", config.head_dim, " is not a multiple of 8"));
  }
  if (config.head_count * config.head_dim > kDimensionMax) {
    return fields.Invalid("num_attention_heads",
                          absl::StrCat("times head_dim is over ", kDimensionMax));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(config.context_length_max,
                            fields.Integer("max_position_embeddings", 1, kContextMax, 2048));
  return absl::OkStatus();
}

absl::Status ReadTokenIds(const JsonFields& fields, ModelConfig& config) {
  const int64_t last = config.vocab_size - 1;
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t bos, fields.Integer("bos_token_id", 0, last, -1));
  if (bos >= 0) config.bos_token_id = static_cast<int32_t>(bos);
  if (!fields.Has("eos_token_id")) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> eos,
                            fields.Integers("eos_token_id", 0, last));
  config.eos_token_ids.assign(eos.begin(), eos.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& model_directory) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed,
                            ReadJson(absl::StrCat(model_directory, "/config.json")));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(parsed, "config.json"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Family family, ReadFamily(fields));
  LOCKSTEP_RETURN_IF_ERROR(CheckNothingLacking(fields));

  ModelConfig config;
  config.architecture = family.architecture;
  config.model_type = family.model_type;
  config.qkv_bias = family.qkv_bias;
  config.qk_norm = family.qk_norm;
  LOCKSTEP_RETURN_IF_ERROR(ReadShape(fields, family, config));
  LOCKSTEP_RETURN_IF_ERROR(CheckNoWindow(fields, config));
  LOCKSTEP_RETURN_IF_ERROR(ReadRope(fields, config));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const double epsilon,
      fields.Real("rms_norm_eps", std::numeric_limits<float>::min(), 1, 1e-6));
  config.rms_norm_epsilon = static_cast<float>(epsilon);
  LOCKSTEP_ASSIGN_OR_RETURN(config.tie_word_embeddings,
                            fields.Boolean("tie_word_embeddings", false));
  LOCKSTEP_RETURN_IF_ERROR(ReadTokenIds(fields, config));

  // Where generation_config.json says something else, it is the one that generation follows.
  absl::StatusOr<json> generation =
      ReadJson(absl::StrCat(model_directory, "/generation_config.json"));
  if (absl::IsNotFound(generation.status())) return config;
  LOCKSTEP_RETURN_IF_ERROR(generation.status());
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonFields generation_fields,
                            JsonFields::Of(*generation, "generation_config.json"));
  LOCKSTEP_RETURN_IF_ERROR(ReadTokenIds(generation_fields, config));
  return config;
}

}  // namespace lockstep
