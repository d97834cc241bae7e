#include "core/model/param_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lockstep {
namespace {

// Collects tensors in canonical order and numbers their elements through.
class SpecList {
 public:
  void Matrix(std::string name, int layer, int64_t rows, int64_t cols) {
    ParamSpec& spec = Append(std::move(name), layer, rows, cols);
    spec.rank = 2;
  }
  // Norm weights and biases.
  void Vector(std::string name, int layer, int64_t size) {
    ParamSpec& spec = Append(std::move(name), layer, 1, size);
    spec.rank = 1;
    spec.decay = false;
  }
  std::vector<ParamSpec> Take() { return std::move(specs_); }

 private:
  ParamSpec& Append(std::string name, int layer, int64_t rows, int64_t cols) {
    ParamSpec& spec = specs_.emplace_back();
    spec.name = std::move(name);
    spec.module = "lm";
    spec.layer = layer;
    spec.rows = rows;
    spec.cols = cols;
    spec.shard = {0, rows};
    spec.canonical_begin = next_;
    next_ += spec.size();
    return spec;
  }

  std::vector<ParamSpec> specs_;
  int64_t next_ = 0;
};

}  // namespace

std::vector<ParamSpec> ModelParams(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  SpecList list;
  list.Matrix("model.embed_tokens.weight", -1, config.vocab_size, hidden);
  for (int layer = 0; layer < config.layer_count; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    list.Vector(prefix + "input_layernorm.weight", layer, hidden);
    list.Matrix(prefix + "self_attn.q_proj.weight", layer, config.q_width(), hidden);
    list.Matrix(prefix + "self_attn.k_proj.weight", layer, config.kv_width(), hidden);
    list.Matrix(prefix + "self_attn.v_proj.weight", layer, config.kv_width(), hidden);
    if (config.qkv_bias) {
      list.Vector(prefix + "self_attn.q_proj.bias", layer, config.q_width());
      list.Vector(prefix + "self_attn.k_proj.bias", layer, config.kv_width());
      list.Vector(prefix + "self_attn.v_proj.bias", layer, config.kv_width());
    }
    if (config.qk_norm) {
      list.Vector(prefix + "self_attn.q_norm.weight", layer, config.head_dim);
      list.Vector(prefix + "self_attn.k_norm.weight", layer, config.head_dim);
    }
    list.Matrix(prefix + "self_attn.o_proj.weight", layer, hidden, config.q_width());
    list.Vector(prefix + "post_attention_layernorm.weight", layer, hidden);
    list.Matrix(prefix + "mlp.gate_proj.weight", layer, config.intermediate_size, hidden);
    list.Matrix(prefix + "mlp.up_proj.weight", layer, config.intermediate_size, hidden);
    list.Matrix(prefix + "mlp.down_proj.weight", layer, hidden, config.intermediate_size);
  }
  list.Vector("model.norm.weight", -1, hidden);
  if (!config.tie_word_embeddings) list.Matrix("lm_head.weight", -1, config.vocab_size, hidden);
  return list.Take();
}

LayerTensors::LayerTensors(const ModelConfig& config) {
  const auto take = [this](int tensors) {
    const int place = count;
    count += tensors;
    return place;
  };
  input_norm = take(1);
  query = take(3);
  if (config.qkv_bias) query_bias = take(3);
  if (config.qk_norm) query_norm = take(2);
  attention_out = take(1);
  post_attention_norm = take(1);
  gate = take(2);
  down = take(1);
}

namespace {

// Weights of one layer's products, and of the head's.
int64_t LayerCost(const ModelConfig& config) {
  return config.hidden_size *
         (config.qkv_width() + config.q_width() + 3 * config.intermediate_size);
}
int64_t HeadCost(const ModelConfig& config) { return config.vocab_size * config.hidden_size; }

// How many layers the last of several stages takes.
int64_t LayersOfLastStage(const ModelConfig& config, int64_t stage_count) {
  const int64_t others = stage_count - 1;
  int64_t best = 0;
  int64_t best_cost = 0;
  for (int64_t layers = config.layer_count - others; layers >= 1; --layers) {
    const int64_t most_of_others = (config.layer_count - layers + others - 1) / others;
    const int64_t cost =
        std::max(most_of_others * LayerCost(config), layers * LayerCost(config) + HeadCost(config));
    if (best != 0 && cost >= best_cost) continue;
    best = layers;
    best_cost = cost;
  }
  return best;
}

}  // namespace

std::vector<StageRange> SplitStages(const ModelConfig& config, int64_t stage_count) {
  LOCKSTEP_CHECK(stage_count >= 1 && stage_count <= config.layer_count)
      << stage_count << " stages for " << config.layer_count << " layers";
  const int64_t last =
      stage_count == 1 ? config.layer_count : LayersOfLastStage(config, stage_count);
  std::vector<StageRange> ranges;
  int64_t next = 0;
  for (int64_t stage = 0; stage < stage_count; ++stage) {
    const int64_t stages_before_last = stage_count - 1 - stage;
    StageRange range;
    range.first = stage == 0;
    range.last = stages_before_last == 0;
    const int64_t left = config.layer_count - last - next;
    range.layer_begin = next;
    // An even share of what is left, rounded up.
    range.layer_end =
        next + (range.last ? last : (left + stages_before_last - 1) / stages_before_last);
    next = range.layer_end;
    ranges.push_back(range);
  }
  return ranges;
}

std::vector<ParamSpec> StageParams(const ModelConfig& config, const StageRange& range) {
  std::vector<ParamSpec> params;
  for (ParamSpec& spec : ModelParams(config)) {
    const bool is_embedding = spec.canonical_begin == 0;
    const bool here = is_embedding ? range.first || (range.last && config.tie_word_embeddings)
                      : spec.layer < 0
                          ? range.last
                          : spec.layer >= range.layer_begin && spec.layer < range.layer_end;
    if (here) params.push_back(std::move(spec));
  }
  return params;
}

}  // namespace lockstep
