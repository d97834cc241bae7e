#ifndef LOCKSTEP_CORE_MODEL_PARAM_SPEC_H_
#define LOCKSTEP_CORE_MODEL_PARAM_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/model_config.h"

namespace lockstep {

// The part of a tensor that one rank holds: rows [row_begin, row_end) of the whole.
struct ShardSpec {
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

// One named parameter tensor. Drives loading, optimizer, digest, gradient norm and export.
struct ParamSpec {
  std::string name;     // Hugging Face name, "model.layers.0.self_attn.q_proj.weight"
  std::string module;   // node of the model graph; "lm" for a plain language model
  int layer = -1;       // -1: outside the layers
  int expert = -1;      // -1: not an expert's
  std::string adapter;  // empty: base weights
  bool trainable = true;
  bool decay = true;  // weight decay applies (not to norm weights)
  int rank = 2;       // 1: a vector, its shape in files is [cols]
  int64_t rows = 0;   // 1 for a vector
  int64_t cols = 0;
  ShardSpec shard;
  int64_t canonical_begin = 0;  // global index of element (0, 0) in canonical order

  int64_t size() const { return rows * cols; }
};

// All tensors of the model in canonical order: embedding; per layer those of LayerTensors; final
// norm; head unless tied.
std::vector<ParamSpec> ModelParams(const ModelConfig& config);

// Places of a layer's tensors in canonical order, counted from its first; -1: the model has none.
// q|k|v, their biases and gate|up follow each other, so that a fused product's weights are one
// contiguous run of rows.
struct LayerTensors {
  explicit LayerTensors(const ModelConfig& config);

  int input_norm = -1;
  int query = -1;       // key and value behind it
  int query_bias = -1;  // key's and value's behind it
  int query_norm = -1;  // key's behind it
  int attention_out = -1;
  int post_attention_norm = -1;
  int gate = -1;  // up behind it
  int down = -1;
  int count = 0;
};

// The layers and ends that one pipeline stage holds.
struct StageRange {
  int64_t layer_begin = 0;
  int64_t layer_end = 0;
  bool first = false;  // holds the embedding
  bool last = false;   // holds final norm and head
};

// Cuts the layers so that the costliest stage costs least. Cost is counted in weights of matrix
// products, which is what a decode step reads and what a row's arithmetic grows with: a layer's,
// and for the last stage the head's too. (An embedding is only looked up.) Of equal cuts, the one
// that leaves most layers to the last stage; the others share evenly, earlier ones take the
// remainder. REQUIRES: 1 <= stage_count <= layer_count.
std::vector<StageRange> SplitStages(const ModelConfig& config, int64_t stage_count);

// The tensors of one stage, in canonical order (canonical_begin stays global). A tied embedding is
// on the first and on the last stage; `ModelParams` has it once.
std::vector<ParamSpec> StageParams(const ModelConfig& config, const StageRange& range);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_PARAM_SPEC_H_
