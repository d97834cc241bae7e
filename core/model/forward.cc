#include "core/model/forward.h"

#include <cmath>
#include <cstring>

#include "core/base/check.h"

namespace lockstep {

void LayerActivations::Reserve(const ModelConfig& config, int64_t rows) {
  const int64_t hidden = config.hidden_size;
  input.Reserve(rows * hidden);
  inverse_rms1.Reserve(rows);
  normed1.Reserve(rows * hidden);
  qkv.Reserve(rows * config.qkv_width());
  if (config.qk_norm) {
    query_before.Reserve(rows * config.q_width());
    key_before.Reserve(rows * config.kv_width());
    query_inverse_rms.Reserve(rows * config.head_count);
    key_inverse_rms.Reserve(rows * config.kv_head_count);
  }
  attention.Reserve(rows * config.q_width());
  log_sum_exp.Reserve(rows * config.head_count);
  residual.Reserve(rows * hidden);
  inverse_rms2.Reserve(rows);
  normed2.Reserve(rows * hidden);
  gate_up.Reserve(rows * 2 * config.intermediate_size);
  activated.Reserve(rows * config.intermediate_size);
  projected.Reserve(rows * hidden);
}

int64_t LayerActivations::FloatsPerRow(const ModelConfig& config) {
  const int64_t norm = config.qk_norm ? config.q_width() + config.kv_width() + config.head_count +
                                            config.kv_head_count
                                      : 0;
  return 5 * config.hidden_size + config.qkv_width() + norm + config.q_width() + config.head_count +
         3 * config.intermediate_size + 2;
}

int64_t LayerActivations::size() const {
  return input.size() + inverse_rms1.size() + normed1.size() + qkv.size() + query_before.size() +
         key_before.size() + query_inverse_rms.size() + key_inverse_rms.size() + attention.size() +
         log_sum_exp.size() + residual.size() + inverse_rms2.size() + normed2.size() +
         gate_up.size() + activated.size() + projected.size();
}

void LayerGradients::Reserve(const ModelConfig& config, int64_t rows) {
  normed.Reserve(rows * config.hidden_size);
  branch.Reserve(rows * config.hidden_size);
  qkv.Reserve(rows * config.qkv_width());
  attention.Reserve(rows * config.q_width());
  gate_up.Reserve(rows * 2 * config.intermediate_size);
  activated.Reserve(rows * config.intermediate_size);
}

int64_t LayerGradients::FloatsPerRow(const ModelConfig& config) {
  return 2 * config.hidden_size + config.qkv_width() + config.q_width() +
         3 * config.intermediate_size;
}

int64_t LayerGradients::size() const {
  return normed.size() + branch.size() + qkv.size() + attention.size() + gate_up.size() +
         activated.size();
}

Activations::Activations(Keep keep, const StageContext& context)
    : layers_(keep == Keep::kAllLayers ? context.range.layer_end - context.range.layer_begin : 1) {}

void Activations::Reserve(const ModelConfig& config, int64_t rows) {
  for (LayerActivations& layer : layers_) layer.Reserve(config, rows);
}

std::vector<kernels::SequenceRows> RowsOf(const TokenBatch& batch) {
  std::vector<kernels::SequenceRows> rows;
  rows.reserve(batch.sequences.size());
  for (const SequenceSlice& slice : batch.sequences) {
    rows.push_back({slice.row_begin, slice.row_count, slice.first_position, slice.pages});
  }
  return rows;
}

kernels::AttentionShape ShapeOf(const ModelConfig& config) {
  return {config.head_count, config.kv_head_count, config.head_dim,
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))};
}

namespace {

// One layer, input to output[M, H], which may be the layer's own input buffer.
void ForwardLayer(const StageContext& context, const LayerWeights& weights, const TokenBatch& batch,
                  absl::Span<const kernels::SequenceRows> sequences, const kernels::KvPages& kv,
                  LayerActivations& a, float* output) {
  const ModelConfig& c = *context.config;
  const kernels::Kernels& op = *context.kernels;
  kernels::Parallel& parallel = *context.parallel;
  const int64_t rows = batch.row_count();
  const int64_t hidden = c.hidden_size;
  const int64_t stride = c.qkv_width();
  float* k = a.qkv.data() + c.q_width();
  float* v = k + c.kv_width();

  op.RmsNorm(parallel, a.input.data(), weights.input_norm.data(), rows, hidden, c.rms_norm_epsilon,
             a.normed1.data(), a.inverse_rms1.data());
  op.MatMul(parallel, a.normed1.data(), rows, weights.qkv, a.qkv.data());
  if (c.qkv_bias) op.AddBias(parallel, weights.qkv_bias.data(), rows, stride, a.qkv.data());
  if (c.qk_norm) {
    op.HeadNorm(parallel, a.qkv.data(), stride, weights.query_norm.data(), rows, c.head_count,
                c.head_dim, c.rms_norm_epsilon, a.query_before.data(), a.query_inverse_rms.data());
    op.HeadNorm(parallel, k, stride, weights.key_norm.data(), rows, c.kv_head_count, c.head_dim,
                c.rms_norm_epsilon, a.key_before.data(), a.key_inverse_rms.data());
  }
  op.Rope(parallel, a.qkv.data(), stride, c.head_count + c.kv_head_count, c.head_dim,
          batch.positions, context.rope_cosine, context.rope_sine);
  op.StoreKv(parallel, k, v, stride, sequences, kv);
  op.Attention(parallel, ShapeOf(c), a.qkv.data(), stride, sequences, kv, a.attention.data(),
               a.log_sum_exp.data());
  op.MatMul(parallel, a.attention.data(), rows, weights.attention_out, a.projected.data());
  op.Add(parallel, a.input.data(), a.projected.data(), rows * hidden, a.residual.data());

  op.RmsNorm(parallel, a.residual.data(), weights.post_attention_norm.data(), rows, hidden,
             c.rms_norm_epsilon, a.normed2.data(), a.inverse_rms2.data());
  op.MatMul(parallel, a.normed2.data(), rows, weights.gate_up, a.gate_up.data());
  op.SiluMul(parallel, a.gate_up.data(), rows, c.intermediate_size, a.activated.data());
  op.MatMul(parallel, a.activated.data(), rows, weights.down, a.projected.data());
  op.Add(parallel, a.residual.data(), a.projected.data(), rows * hidden, output);
}

// Notes the rows whose RMSNorm was handed something not finite, for which `place` answers unless an
// earlier one does: NaN gives an inverse RMS of NaN, an infinite square sum one of 0. A row has
// `norms` of them.
void NoteNonFinite(const Buffer<float>& inverse_rms, int64_t rows, int64_t norms,
                   const ModelPlace& place, NonFiniteRows* non_finite) {
  for (int64_t i = 0; i < rows * norms; ++i) {
    if (!(inverse_rms.data()[i] > 0)) non_finite->emplace(static_cast<int32_t>(i / norms), place);
  }
}

}  // namespace

NonFiniteRows Forward(const StageContext& context, const WeightView& weights,
                      const TokenBatch& batch, KvArena& kv, Activations& activations,
                      float* hidden) {
  const ModelConfig& config = *context.config;
  const int64_t rows = batch.row_count();
  const int64_t layer_count = context.range.layer_end - context.range.layer_begin;
  LOCKSTEP_CHECK_EQ(layer_count, static_cast<int64_t>(weights.base->layers.size()));
  activations.Reserve(config, rows);
  const std::vector<kernels::SequenceRows> sequences = RowsOf(batch);

  float* input = activations.Layer(0).input.data();
  if (context.range.first) {
    context.kernels->Embedding(*context.parallel, batch.tokens, weights.base->embedding, input);
  } else {
    std::memcpy(input, hidden, static_cast<size_t>(rows * config.hidden_size) * sizeof(float));
  }
  using Part = ModelPlace::Part;
  NonFiniteRows non_finite;
  ModelPlace before = {context.range.first ? Part::kEmbedding : Part::kMlp,
                       context.range.layer_begin - 1};
  for (int64_t i = 0; i < layer_count; ++i) {
    float* output = i + 1 < layer_count ? activations.Layer(i + 1).input.data() : hidden;
    ForwardLayer(context, weights.base->layers[i], batch, sequences, kv.Layer(i),
                 activations.Layer(i), output);
    const int64_t layer = context.range.layer_begin + i;
    const LayerActivations& a = activations.Layer(i);
    const ModelPlace attention = {Part::kAttention, layer};
    NoteNonFinite(a.inverse_rms1, rows, 1, before, &non_finite);
    if (config.qk_norm) {
      NoteNonFinite(a.query_inverse_rms, rows, config.head_count, attention, &non_finite);
      NoteNonFinite(a.key_inverse_rms, rows, config.kv_head_count, attention, &non_finite);
    }
    NoteNonFinite(a.inverse_rms2, rows, 1, attention, &non_finite);
    before = {Part::kMlp, layer};
  }
  return non_finite;
}

}  // namespace lockstep
