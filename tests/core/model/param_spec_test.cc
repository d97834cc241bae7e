// Goal: the canonical order of tensors, the cut into stages and what a stage holds. Method: against
// names and counts written down by hand, for the shape of SmolLM2-135M among others.
#include "core/model/param_spec.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

std::vector<std::string> Names(const std::vector<ParamSpec>& params) {
  std::vector<std::string> names;
  for (const ParamSpec& spec : params) names.push_back(spec.name);
  return names;
}

TEST(ParamSpecTest, CanonicalOrderOfAnUntiedModel) {
  EXPECT_EQ(Names(ModelParams(TinyModelConfig(/*tied=*/false, 1))),
            (std::vector<std::string>{
                "model.embed_tokens.weight",
                "model.layers.0.input_layernorm.weight",
                "model.layers.0.self_attn.q_proj.weight",
                "model.layers.0.self_attn.k_proj.weight",
                "model.layers.0.self_attn.v_proj.weight",
                "model.layers.0.self_attn.o_proj.weight",
                "model.layers.0.post_attention_layernorm.weight",
                "model.layers.0.mlp.gate_proj.weight",
                "model.layers.0.mlp.up_proj.weight",
                "model.layers.0.mlp.down_proj.weight",
                "model.norm.weight",
                "lm_head.weight",
            }));
}

TEST(ParamSpecTest, ElementsAreNumberedThroughAndShapesFitTheModel) {
  const ModelConfig config = TinyModelConfig(/*tied=*/false);
  int64_t next = 0;
  for (const ParamSpec& spec : ModelParams(config)) {
    EXPECT_EQ(spec.canonical_begin, next) << spec.name;
    EXPECT_EQ(spec.decay, spec.rank == 2) << spec.name;
    EXPECT_EQ(spec.shard.row_end, spec.rows) << spec.name;
    next += spec.size();
  }
  const std::vector<ParamSpec> params = ModelParams(config);
  EXPECT_EQ(params[3].name, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(params[3].rows, 32);
  EXPECT_EQ(params[3].cols, 32);
  EXPECT_EQ(params[9].rows, 32);  // down
  EXPECT_EQ(params[9].cols, 52);
}

TEST(ParamSpecTest, CountsTheParametersOfSmolLm2) {
  ModelConfig config;
  config.vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.layer_count = 30;
  config.head_count = 9;
  config.kv_head_count = 3;
  config.head_dim = 64;
  config.tie_word_embeddings = true;
  const ParamSpec last = ModelParams(config).back();
  EXPECT_EQ(last.canonical_begin + last.size(), 134515008);
}

TEST(ParamSpecTest, StagesTakeTheLayersAsEvenlyAsTheyGo) {
  for (int64_t layers = 1; layers <= 9; ++layers) {
    for (int64_t stages = 1; stages <= layers; ++stages) {
      const std::vector<StageRange> ranges = SplitStages(TinyModelConfig(true, layers), stages);
      ASSERT_EQ(static_cast<int64_t>(ranges.size()), stages);
      int64_t next = 0;
      for (int64_t i = 0; i < stages; ++i) {
        const int64_t count = ranges[i].layer_end - ranges[i].layer_begin;
        EXPECT_EQ(ranges[i].layer_begin, next);
        EXPECT_EQ(count, layers / stages + (i < layers % stages ? 1 : 0));
        EXPECT_EQ(ranges[i].first, i == 0);
        EXPECT_EQ(ranges[i].last, i == stages - 1);
        next = ranges[i].layer_end;
      }
      EXPECT_EQ(next, layers);
    }
  }
}

TEST(ParamSpecTest, StagesHoldEveryTensorOnceAndATiedEmbeddingAtBothEnds) {
  for (const bool tied : {false, true}) {
    const ModelConfig config = TinyModelConfig(tied);
    std::multiset<std::string> held;
    for (const StageRange& range : SplitStages(config, 3)) {
      const std::vector<ParamSpec> params = StageParams(config, range);
      EXPECT_TRUE(std::is_sorted(params.begin(), params.end(), [](const auto& a, const auto& b) {
        return a.canonical_begin < b.canonical_begin;
      }));
      for (const ParamSpec& spec : params) held.insert(spec.name);
    }
    for (const ParamSpec& spec : ModelParams(config)) {
      const bool twice = tied && spec.name == "model.embed_tokens.weight";
      EXPECT_EQ(held.count(spec.name), twice ? 2u : 1u) << spec.name;
    }
  }
}

TEST(ParamSpecDeathTest, MoreStagesThanLayersIsABug) {
  EXPECT_DEATH(SplitStages(TinyModelConfig(true, 2), 3), "3 stages for 2 layers");
}

}  // namespace
}  // namespace lockstep
