#include "core/model/param_spec.h"

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
  void NormWeight(std::string name, int layer, int64_t size) {
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
    list.NormWeight(prefix + "input_layernorm.weight", layer, hidden);
    list.Matrix(prefix + "self_attn.q_proj.weight", layer, config.q_width(), hidden);
    list.Matrix(prefix + "self_attn.k_proj.weight", layer, config.kv_width(), hidden);
    list.Matrix(prefix + "self_attn.v_proj.weight", layer, config.kv_width(), hidden);
    list.Matrix(prefix + "self_attn.o_proj.weight", layer, hidden, config.q_width());
    list.NormWeight(prefix + "post_attention_layernorm.weight", layer, hidden);
    list.Matrix(prefix + "mlp.gate_proj.weight", layer, config.intermediate_size, hidden);
    list.Matrix(prefix + "mlp.up_proj.weight", layer, config.intermediate_size, hidden);
    list.Matrix(prefix + "mlp.down_proj.weight", layer, hidden, config.intermediate_size);
  }
  list.NormWeight("model.norm.weight", -1, hidden);
  if (!config.tie_word_embeddings) list.Matrix("lm_head.weight", -1, config.vocab_size, hidden);
  return list.Take();
}

std::vector<StageRange> SplitStages(const ModelConfig& config, int64_t stage_count) {
  LOCKSTEP_CHECK(stage_count >= 1 && stage_count <= config.layer_count)
      << stage_count << " stages for " << config.layer_count << " layers";
  std::vector<StageRange> ranges;
  const int64_t share = config.layer_count / stage_count;
  const int64_t remainder = config.layer_count % stage_count;
  int64_t next = 0;
  for (int64_t stage = 0; stage < stage_count; ++stage) {
    StageRange range;
    range.layer_begin = next;
    range.layer_end = next + share + (stage < remainder ? 1 : 0);
    range.first = stage == 0;
    range.last = stage == stage_count - 1;
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
