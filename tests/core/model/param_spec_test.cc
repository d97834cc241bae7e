// Goal: the canonical order of tensors, the cut into stages and what a stage holds. Method: against
// names and counts written down by hand, for the shape of SmolLM2-135M among others.
#include "core/model/param_spec.h"

#include <algorithm>
#include <functional>
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
  const ParamSpec last = ModelParams(SmolLm2Shape()).back();
  EXPECT_EQ(last.canonical_begin + last.size(), 134515008);
}

TEST(ParamSpecTest, CanonicalOrderOfWhatOtherFamiliesAdd) {
  std::vector<std::string> names = Names(ModelParams(TinyModelConfig(TinyFamily::kQwen2, 1)));
  EXPECT_EQ(std::vector<std::string>(names.begin() + 4, names.begin() + 9),
            (std::vector<std::string>{
                "model.layers.0.self_attn.v_proj.weight",
                "model.layers.0.self_attn.q_proj.bias",
                "model.layers.0.self_attn.k_proj.bias",
                "model.layers.0.self_attn.v_proj.bias",
                "model.layers.0.self_attn.o_proj.weight",
            }));
  names = Names(ModelParams(TinyModelConfig(TinyFamily::kQwen3, 1)));
  EXPECT_EQ(std::vector<std::string>(names.begin() + 4, names.begin() + 8),
            (std::vector<std::string>{
                "model.layers.0.self_attn.v_proj.weight",
                "model.layers.0.self_attn.q_norm.weight",
                "model.layers.0.self_attn.k_norm.weight",
                "model.layers.0.self_attn.o_proj.weight",
            }));
}

TEST(ParamSpecTest, LayerTensorsAreWhereTheirNamesAre) {
  for (const TinyFamily family : kTinyFamilies) {
    const ModelConfig config = TinyModelConfig(family, 2);
    const LayerTensors tensors(config);
    const std::vector<ParamSpec> params = ModelParams(config);
    const int second = 1 + tensors.count;
    const auto name = [&](int place) {
      return params[second + place].name.substr(std::string("model.layers.1.").size());
    };
    EXPECT_EQ(params[second].layer, 1);
    EXPECT_EQ(params[second - 1].layer, 0);
    EXPECT_EQ(name(tensors.input_norm), "input_layernorm.weight");
    EXPECT_EQ(name(tensors.query), "self_attn.q_proj.weight");
    EXPECT_EQ(tensors.query_bias >= 0, config.qkv_bias);
    if (config.qkv_bias) {
      EXPECT_EQ(name(tensors.query_bias), "self_attn.q_proj.bias");
    }
    EXPECT_EQ(tensors.query_norm >= 0, config.qk_norm);
    if (config.qk_norm) {
      EXPECT_EQ(name(tensors.query_norm), "self_attn.q_norm.weight");
    }
    EXPECT_EQ(name(tensors.attention_out), "self_attn.o_proj.weight");
    EXPECT_EQ(name(tensors.post_attention_norm), "post_attention_layernorm.weight");
    EXPECT_EQ(name(tensors.gate), "mlp.gate_proj.weight");
    EXPECT_EQ(name(tensors.down), "mlp.down_proj.weight");
  }
}

// Layers per stage.
std::vector<int64_t> Cut(const ModelConfig& config, int64_t stages) {
  std::vector<int64_t> counts;
  int64_t next = 0;
  for (const StageRange& range : SplitStages(config, stages)) {
    EXPECT_EQ(range.layer_begin, next);
    EXPECT_EQ(range.first, counts.empty());
    EXPECT_EQ(range.last, static_cast<int64_t>(counts.size()) == stages - 1);
    counts.push_back(range.layer_end - range.layer_begin);
    next = range.layer_end;
  }
  EXPECT_EQ(next, config.layer_count);
  return counts;
}

// Against every cut there is.
TEST(ParamSpecTest, NoOtherCutHasACheaperCostliestStage) {
  for (const int64_t vocab_size : {10, 300, 2000}) {  // a head of 0.05, 1.5 and 10 layers
    for (int64_t layers = 1; layers <= 9; ++layers) {
      ModelConfig config = TinyModelConfig(true, layers);
      config.vocab_size = vocab_size;
      const double head =
          static_cast<double>(vocab_size) * 32 / (32 * (128 + 64) + 3 * 32 * 52);  // in layers
      for (int64_t stages = 1; stages <= std::min<int64_t>(layers, 4); ++stages) {
        const auto cost = [&](const std::vector<int64_t>& counts) {
          double most = 0;
          for (size_t i = 0; i < counts.size(); ++i) {
            most = std::max(most, counts[i] + (i + 1 == counts.size() ? head : 0.0));
          }
          return most;
        };
        const double ours = cost(Cut(config, stages));
        std::vector<int64_t> counts(stages, 1);
        const std::function<void(size_t, int64_t)> try_all = [&](size_t stage, int64_t left) {
          if (stage + 1 == counts.size()) {
            counts[stage] = left;
            EXPECT_GE(cost(counts), ours) << layers << " layers, vocabulary " << vocab_size;
            return;
          }
          const int64_t others = static_cast<int64_t>(counts.size() - stage) - 1;
          for (counts[stage] = 1; counts[stage] <= left - others; ++counts[stage]) {
            try_all(stage + 1, left - counts[stage]);
          }
        };
        try_all(0, layers);
      }
    }
  }
}

TEST(ParamSpecTest, CutsOfSmolLm2) {
  ModelConfig config = TinyModelConfig(true, 30);
  config.vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.head_count = 9;
  config.kv_head_count = 3;
  config.head_dim = 64;
  EXPECT_EQ(Cut(config, 1), (std::vector<int64_t>{30}));
  EXPECT_EQ(Cut(config, 2), (std::vector<int64_t>{19, 11}));
  EXPECT_EQ(Cut(config, 3), (std::vector<int64_t>{13, 12, 5}));
  EXPECT_EQ(Cut(config, 4), (std::vector<int64_t>{10, 9, 9, 2}));
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
