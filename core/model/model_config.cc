#include "core/model/model_config.h"

#include <limits>
#include <string>
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

absl::Status CheckArchitecture(const JsonFields& fields) {
  const json* architectures = fields.Find("architectures");
  if (architectures == nullptr) return fields.Invalid("architectures", "is missing");
  if (*architectures != json::array({"LlamaForCausalLM"})) {
    return fields.Lacking("architectures", "is not served; only [\"LlamaForCausalLM\"] is");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, fields.String("model_type", "llama"));
  if (type != "llama") return fields.Invalid("model_type", "contradicts architectures");
  return absl::OkStatus();
}

// Features of the configuration that would change the arithmetic and that no kernel here has.
absl::Status CheckNothingLacking(const JsonFields& fields) {
  for (const char* name : {"attention_bias", "mlp_bias", "rope_interleaved"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool asked, fields.Boolean(name, false));
    if (asked) return fields.Lacking(name, "is not served");
  }
  for (const char* name : {"sliding_window", "quantization_config"}) {
    if (fields.Has(name)) return fields.Lacking(name, "is not served");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string activation, fields.String("hidden_act", "silu"));
  if (activation != "silu") return fields.Lacking("hidden_act", "is not served; only silu is");
  LOCKSTEP_ASSIGN_OR_RETURN(const double dropout, fields.Real("attention_dropout", 0, 1, 0));
  if (dropout != 0) return fields.Lacking("attention_dropout", "is not served; only 0 is");
  LOCKSTEP_ASSIGN_OR_RETURN(const double rotary, fields.Real("partial_rotary_factor", 0, 1, 1));
  if (rotary != 1) return fields.Lacking("partial_rotary_factor", "is not served; only 1 is");
  if (const json* types = fields.Find("layer_types"); types != nullptr) {
    for (const json& type : *types) {
      if (type != "full_attention") {
        return fields.Lacking("layer_types", "is not served; only full_attention is");
      }
    }
  }
  for (const char* name : {"dtype", "torch_dtype"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string dtype, fields.String(name, "float32"));
    if (dtype != "float32" && dtype != "bfloat16") {
      return fields.Lacking(name, "is not served; float32 and bfloat16 are");
    }
  }
  return absl::OkStatus();
}

// A scaling other than "default" is another set of frequencies.
absl::Status CheckRopeIsDefault(const JsonFields& outer, const std::string& name,
                                const JsonFields& rope) {
  for (const char* key : {"rope_type", "type"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, rope.String(key, "default"));
    if (type != "default") return outer.Lacking(name, "is not served; only the default RoPE is");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const double rotary, rope.Real("partial_rotary_factor", 0, 1, 1));
  if (rotary != 1) return outer.Lacking(name, "is not served; only partial_rotary_factor 1 is");
  // One set of parameters for every kind of layer.
  for (const char* key : {"full_attention", "sliding_attention"}) {
    if (rope.Has(key)) return outer.Lacking(name, "is not served per kind of layer");
  }
  return absl::OkStatus();
}

// "rope_parameters": {"rope_theta", "rope_type"} of current transformers, or "rope_theta" beside
// "rope_scaling" of older ones. Both may be there if they agree.
absl::StatusOr<double> ReadRopeTheta(const JsonFields& fields) {
  constexpr double kThetaDefault = 10000;
  constexpr double kThetaMax = 1e30;
  LOCKSTEP_ASSIGN_OR_RETURN(double theta, fields.Real("rope_theta", 1, kThetaMax, kThetaDefault));
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json* object = fields.Find(name);
    if (object == nullptr) continue;
    if (!object->is_object()) return fields.Invalid(name, "is not an object");
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonFields rope,
                              JsonFields::Of(*object, absl::StrCat("config.json: ", name)));
    LOCKSTEP_RETURN_IF_ERROR(CheckRopeIsDefault(fields, name, rope));
    if (!rope.Has("rope_theta")) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const double inner, rope.Real("rope_theta", 1, kThetaMax));
    if (fields.Has("rope_theta") && inner != theta) {
      return fields.Invalid("rope_theta", absl::StrCat("contradicts ", name, ".rope_theta"));
    }
    theta = inner;
  }
  return theta;
}

absl::Status ReadShape(const JsonFields& fields, ModelConfig& config) {
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
  LOCKSTEP_RETURN_IF_ERROR(CheckArchitecture(fields));
  LOCKSTEP_RETURN_IF_ERROR(CheckNothingLacking(fields));

  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  LOCKSTEP_RETURN_IF_ERROR(ReadShape(fields, config));
  LOCKSTEP_ASSIGN_OR_RETURN(config.rope_theta, ReadRopeTheta(fields));
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
