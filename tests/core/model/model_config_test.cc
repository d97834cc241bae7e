// Goal: both spellings of a Llama's config.json are read, and everything that would make this build
// compute something else than the file asks for is refused, naming field and value. Method: a valid
// config with one field changed at a time.
#include "core/model/model_config.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/temp_directory.h"

namespace lockstep {
namespace {

using nlohmann::json;

// As transformers 4 wrote it.
json OlderSpelling() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 50000.0},
          {"rope_scaling", nullptr},
          {"torch_dtype", "bfloat16"},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", true},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

// As transformers 5 writes it.
json CurrentSpelling() {
  json config = OlderSpelling();
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config.erase("torch_dtype");
  config["rope_parameters"] = {{"rope_theta", 50000.0}, {"rope_type", "default"}};
  config["dtype"] = "float32";
  config["head_dim"] = 16;
  return config;
}

absl::StatusOr<ModelConfig> Read(const std::string& config, const std::string& generation = "") {
  const TempDirectory directory;
  directory.Write("config.json", config);
  if (!generation.empty()) directory.Write("generation_config.json", generation);
  return ReadModelConfig(directory.path());
}
absl::StatusOr<ModelConfig> Read(const json& config, const std::string& generation = "") {
  return Read(config.dump(), generation);
}

absl::StatusOr<ModelConfig> ReadWith(const std::string& field, const json& value) {
  json config = OlderSpelling();
  config[field] = value;
  return Read(config);
}

TEST(ModelConfigTest, ReadsBothSpellings) {
  for (const json& spelling : {OlderSpelling(), CurrentSpelling()}) {
    const auto config = Read(spelling);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->architecture, "LlamaForCausalLM");
    EXPECT_EQ(config->vocab_size, 100);
    EXPECT_EQ(config->hidden_size, 64);
    EXPECT_EQ(config->intermediate_size, 96);
    EXPECT_EQ(config->layer_count, 2);
    EXPECT_EQ(config->head_count, 4);
    EXPECT_EQ(config->kv_head_count, 2);
    EXPECT_EQ(config->head_dim, 16);
    EXPECT_EQ(config->context_length_max, 128);
    EXPECT_EQ(config->rms_norm_epsilon, 1e-5f);
    EXPECT_EQ(config->rope_theta, 50000);
    EXPECT_TRUE(config->tie_word_embeddings);
    EXPECT_EQ(config->bos_token_id, 1);
    EXPECT_EQ(config->eos_token_ids, std::vector<int32_t>{2});
  }
}

TEST(ModelConfigTest, ReadsEveryFamily) {
  struct Family {
    const char* architecture;
    const char* model_type;
    bool qkv_bias;
    bool qk_norm;
  };
  for (const Family& family : {Family{"LlamaForCausalLM", "llama", false, false},
                               Family{"MistralForCausalLM", "mistral", false, false},
                               Family{"Qwen2ForCausalLM", "qwen2", true, false},
                               Family{"Qwen3ForCausalLM", "qwen3", false, true}}) {
    json spelling = CurrentSpelling();
    spelling["architectures"] = {family.architecture};
    spelling["model_type"] = family.model_type;
    spelling["sliding_window"] = nullptr;
    const auto config = Read(spelling);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->architecture, family.architecture);
    EXPECT_EQ(config->model_type, family.model_type);
    EXPECT_EQ(config->qkv_bias, family.qkv_bias);
    EXPECT_EQ(config->qk_norm, family.qk_norm);

    spelling["model_type"] = "bert";
    EXPECT_EQ(Read(spelling).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// Where transformers has a default of the family's own, a file must spell the value out.
TEST(ModelConfigTest, OtherFamiliesDefaultsAreNotGuessed) {
  for (const char* name : {"num_key_value_heads", "max_position_embeddings", "head_dim"}) {
    json spelling = CurrentSpelling();
    spelling["architectures"] = {"Qwen3ForCausalLM"};
    spelling["model_type"] = "qwen3";
    spelling.erase(name);
    const absl::Status status = Read(spelling).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  }
}

TEST(ModelConfigTest, AMistralSaysWhetherItHasAWindow) {
  json spelling = CurrentSpelling();
  spelling["architectures"] = {"MistralForCausalLM"};
  spelling["model_type"] = "mistral";
  const absl::Status status = Read(spelling).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("sliding_window"), std::string::npos) << status;
  spelling["sliding_window"] = nullptr;
  EXPECT_TRUE(Read(spelling).ok()) << Read(spelling).status();
}

TEST(ModelConfigTest, ReadsLlama3ScalingInBothSpellings) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 32.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  json older = OlderSpelling();
  older["rope_scaling"] = scaling;
  json current = CurrentSpelling();
  current["rope_parameters"].update(scaling);
  for (const json& spelling : {older, current}) {
    const auto config = Read(spelling);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rope_theta, 50000);
    ASSERT_TRUE(config->rope_scaling.has_value());
    EXPECT_EQ(config->rope_scaling->factor, 32);
    EXPECT_EQ(config->rope_scaling->low_frequency_factor, 1);
    EXPECT_EQ(config->rope_scaling->high_frequency_factor, 4);
    EXPECT_EQ(config->rope_scaling->original_context, 8192);
  }
  for (const char* name :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    json incomplete = older;
    incomplete["rope_scaling"].erase(name);
    EXPECT_EQ(Read(incomplete).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  older["rope_scaling"]["high_freq_factor"] = 1.0;
  EXPECT_EQ(Read(older).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ModelConfigTest, AWindowThatIsNotUsedOrNeverEndsIsNone) {
  json unused = CurrentSpelling();
  unused["use_sliding_window"] = false;
  unused["sliding_window"] = 64;
  EXPECT_TRUE(Read(unused).ok()) << Read(unused).status();
  EXPECT_TRUE(ReadWith("sliding_window", 128).ok()) << "as long as the context";
}

TEST(ModelConfigTest, AbsentFieldsTakeTheDefaultsOfTransformers) {
  json minimal = OlderSpelling();
  for (const char* name :
       {"num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta",
        "tie_word_embeddings", "bos_token_id", "eos_token_id", "hidden_act", "model_type"}) {
    minimal.erase(name);
  }
  const auto config = Read(minimal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_head_count, 4);
  EXPECT_EQ(config->context_length_max, 2048);
  EXPECT_EQ(config->rms_norm_epsilon, 1e-6f);
  EXPECT_EQ(config->rope_theta, 10000);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_EQ(config->bos_token_id, -1);
  EXPECT_TRUE(config->eos_token_ids.empty());
}

TEST(ModelConfigTest, EndOfSequenceIsOneIdOrAListAndGenerationConfigGoesFirst) {
  EXPECT_EQ(ReadWith("eos_token_id", {2, 7})->eos_token_ids, (std::vector<int32_t>{2, 7}));
  const json config = OlderSpelling();
  EXPECT_EQ(Read(config, R"({"eos_token_id": [5, 6]})")->eos_token_ids,
            (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(Read(config, R"({"temperature": 0.6})")->eos_token_ids, (std::vector<int32_t>{2}));
  EXPECT_EQ(Read(config, R"({"eos_token_id": 100})").status().message(),
            "generation_config.json: eos_token_id: 100 is outside [0, 99]");
}

TEST(ModelConfigTest, BothSpellingsAtOnceMustAgree) {
  json both = CurrentSpelling();
  both["rope_theta"] = 50000.0;
  EXPECT_TRUE(Read(both).ok());
  both["rope_theta"] = 10000.0;
  EXPECT_EQ(Read(both).status().message(),
            "config.json: rope_theta: 10000.0 contradicts rope_parameters.rope_theta");
}

struct Refusal {
  const char* field;
  json value;
  absl::StatusCode code;
};

class ModelConfigRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(ModelConfigRefusalTest, NamesFieldAndValue) {
  const Refusal& refusal = GetParam();
  const absl::Status status = ReadWith(refusal.field, refusal.value).status();
  EXPECT_EQ(status.code(), refusal.code) << status;
  const std::string message(status.message());
  EXPECT_NE(message.find(std::string("config.json: ") + refusal.field + ": "), std::string::npos)
      << message;
  if (!refusal.value.is_null()) {
    EXPECT_NE(message.find(refusal.value.dump()), std::string::npos) << message;
  }
}

constexpr absl::StatusCode kLacking = absl::StatusCode::kUnimplemented;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

INSTANTIATE_TEST_SUITE_P(
    Fields, ModelConfigRefusalTest,
    testing::ValuesIn(std::vector<Refusal>{
        {"architectures", {"GemmaForCausalLM"}, kLacking},
        {"architectures", {"LlamaForCausalLM", "Other"}, kLacking},
        {"architectures", nullptr, kInvalid},
        {"model_type", "mistral", kInvalid},
        {"attention_bias", true, kLacking},
        {"attention_bias", "false", kInvalid},
        {"mlp_bias", true, kLacking},
        {"rope_interleaved", true, kLacking},
        {"hidden_act", "gelu", kLacking},
        {"sliding_window", 64, kLacking},
        {"sliding_window", "64", kInvalid},
        {"quantization_config", {{"quant_method", "gptq"}}, kLacking},
        {"attention_dropout", 0.1, kLacking},
        {"partial_rotary_factor", 0.5, kLacking},
        {"layer_types", {"full_attention", "sliding_attention"}, kLacking},
        {"dtype", "float64", kLacking},
        {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 8.0}}, kLacking},
        {"rope_scaling", {{"factor", 2.0}, {"type", "linear"}}, kLacking},
        {"rope_scaling", 2.0, kInvalid},
        {"rope_parameters", {{"rope_theta", 1e4}, {"rope_type", "yarn"}}, kLacking},
        {"rope_parameters", {{"partial_rotary_factor", 0.25}, {"rope_type", "default"}}, kLacking},
        {"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}, kLacking},
        {"head_dim", 12, kLacking},
        {"head_dim", 0, kInvalid},
        {"vocab_size", 0, kInvalid},
        {"vocab_size", -5, kInvalid},
        {"vocab_size", 100.5, kInvalid},
        {"vocab_size", "100", kInvalid},
        {"vocab_size", uint64_t{18446744073709551615u}, kInvalid},
        {"vocab_size", nullptr, kInvalid},
        {"hidden_size", 0, kInvalid},
        {"hidden_size", int64_t{1} << 40, kInvalid},
        {"intermediate_size", 0, kInvalid},
        {"num_hidden_layers", 0, kInvalid},
        {"num_attention_heads", 0, kInvalid},
        {"num_attention_heads", 6, kInvalid},
        {"num_key_value_heads", 3, kInvalid},
        {"num_key_value_heads", 8, kInvalid},
        {"max_position_embeddings", 0, kInvalid},
        {"max_position_embeddings", (int64_t{1} << 21) + 1, kInvalid},
        {"rms_norm_eps", 0.0, kInvalid},
        {"rms_norm_eps", -1e-5, kInvalid},
        {"rope_theta", 0.0, kInvalid},
        {"rope_theta", "10000", kInvalid},
        {"tie_word_embeddings", 1, kInvalid},
        {"bos_token_id", 100, kInvalid},
        {"eos_token_id", -1, kInvalid},
        {"eos_token_id", {2, 100}, kInvalid},
        {"eos_token_id", "2", kInvalid},
    }));

TEST(ModelConfigTest, RefusesWhatIsNoConfig) {
  EXPECT_EQ(ReadModelConfig("/nonexistent/model").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Read(std::string("{\"vocab_size\": 3")).status().code(), kInvalid);
  EXPECT_EQ(Read(std::string("[1, 2]")).status().code(), kInvalid);
  EXPECT_EQ(Read(std::string("")).status().code(), kInvalid);
  EXPECT_EQ(Read(OlderSpelling(), "not json").status().code(), kInvalid);
  EXPECT_EQ(Read(std::string(2 << 20, ' ')).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep
