#include "core/model/backward.h"

#include <vector>

#include "core/base/check.h"

namespace lockstep {

std::vector<int64_t> DatumBegins(const TokenBatch& batch) {
  std::vector<int64_t> begins;
  for (const SequenceSlice& slice : batch.sequences) {
    LOCKSTEP_CHECK_EQ(slice.first_position, 0) << "backward takes whole data";
    begins.push_back(slice.row_begin);
  }
  begins.push_back(batch.row_count());
  return begins;
}

namespace {

// Accumulators of one layer's tensors; q|k|v and gate|up are contiguous runs.
struct LayerAccumulators {
  float* input_norm;
  float* qkv;
  float* qkv_bias;    // null without
  float* query_norm;  // null without
  float* key_norm;    // null without
  float* attention_out;
  float* post_attention_norm;
  float* gate_up;
  float* down;
};

LayerAccumulators AccumulatorsOf(OptimizerState& gradients, int64_t layer) {
  const LayerTensors& tensors = gradients.layer_tensors();
  const auto at = [&](int place) {
    return place < 0 ? nullptr : gradients.gradient(gradients.layer_index(layer) + place);
  };
  return {.input_norm = at(tensors.input_norm),
          .qkv = at(tensors.query),
          .qkv_bias = at(tensors.query_bias),
          .query_norm = at(tensors.query_norm),
          .key_norm = at(tensors.query_norm < 0 ? -1 : tensors.query_norm + 1),
          .attention_out = at(tensors.attention_out),
          .post_attention_norm = at(tensors.post_attention_norm),
          .gate_up = at(tensors.gate),
          .down = at(tensors.down)};
}

// ForwardLayer from its last line to its first. dhidden[M, H]: gradient of the layer's output,
// then of its input.
void BackwardLayer(const StageContext& context, const LayerWeights& weights,
                   const TokenBatch& batch, absl::Span<const kernels::SequenceRows> sequences,
                   absl::Span<const int64_t> datum_begins, const kernels::KvPages& kv,
                   const LayerActivations& a, LayerGradients& d, const LayerAccumulators& dw,
                   float* dhidden) {
  const ModelConfig& c = *context.config;
  const kernels::Kernels& op = *context.kernels;
  kernels::Parallel& parallel = *context.parallel;
  const int64_t rows = batch.row_count();
  const int64_t hidden = c.hidden_size;
  const int64_t stride = c.qkv_width();

  op.MatMulBackwardWeight(parallel, dhidden, a.activated.data(), datum_begins, hidden,
                          c.intermediate_size, dw.down);
  op.MatMulBackwardInput(parallel, dhidden, rows, weights.down, d.activated.data());
  op.SiluMulBackward(parallel, a.gate_up.data(), d.activated.data(), rows, c.intermediate_size,
                     d.gate_up.data());
  op.MatMulBackwardWeight(parallel, d.gate_up.data(), a.normed2.data(), datum_begins,
                          2 * c.intermediate_size, hidden, dw.gate_up);
  op.MatMulBackwardInput(parallel, d.gate_up.data(), rows, weights.gate_up, d.normed.data());
  op.RmsNormBackward(parallel, a.residual.data(), weights.post_attention_norm.data(),
                     a.inverse_rms2.data(), d.normed.data(), datum_begins, hidden, d.branch.data(),
                     dw.post_attention_norm);
  op.Add(parallel, dhidden, d.branch.data(), rows * hidden, dhidden);

  op.MatMulBackwardWeight(parallel, dhidden, a.attention.data(), datum_begins, hidden, c.q_width(),
                          dw.attention_out);
  op.MatMulBackwardInput(parallel, dhidden, rows, weights.attention_out, d.attention.data());
  op.AttentionBackward(parallel, ShapeOf(c), a.qkv.data(), stride, sequences, kv,
                       a.attention.data(), a.log_sum_exp.data(), d.attention.data(), d.qkv.data(),
                       stride);
  op.RopeBackward(parallel, d.qkv.data(), stride, c.head_count + c.kv_head_count, c.head_dim,
                  batch.positions, context.rope_cosine, context.rope_sine);
  if (c.qk_norm) {
    op.HeadNormBackward(parallel, a.query_before.data(), weights.query_norm.data(),
                        a.query_inverse_rms.data(), datum_begins, c.head_count, c.head_dim,
                        d.qkv.data(), stride, dw.query_norm);
    op.HeadNormBackward(parallel, a.key_before.data(), weights.key_norm.data(),
                        a.key_inverse_rms.data(), datum_begins, c.kv_head_count, c.head_dim,
                        d.qkv.data() + c.q_width(), stride, dw.key_norm);
  }
  if (c.qkv_bias) {
    op.AddBiasBackward(parallel, d.qkv.data(), datum_begins, stride, dw.qkv_bias);
  }
  op.MatMulBackwardWeight(parallel, d.qkv.data(), a.normed1.data(), datum_begins, stride, hidden,
                          dw.qkv);
  op.MatMulBackwardInput(parallel, d.qkv.data(), rows, weights.qkv, d.normed.data());
  op.RmsNormBackward(parallel, a.input.data(), weights.input_norm.data(), a.inverse_rms1.data(),
                     d.normed.data(), datum_begins, hidden, d.branch.data(), dw.input_norm);
  op.Add(parallel, dhidden, d.branch.data(), rows * hidden, dhidden);
}

}  // namespace

void Backward(const StageContext& context, const WeightView& weights, const TokenBatch& batch,
              KvArena& kv, Activations& activations, OptimizerState& gradients, float* dhidden) {
  const ModelConfig& config = *context.config;
  const std::vector<kernels::SequenceRows> sequences = RowsOf(batch);
  const std::vector<int64_t> datum_begins = DatumBegins(batch);
  LayerGradients& scratch = activations.Scratch();
  scratch.Reserve(config, batch.row_count());

  for (int64_t i = context.range.layer_end - context.range.layer_begin - 1; i >= 0; --i) {
    BackwardLayer(context, weights.base->layers[i], batch, sequences, datum_begins, kv.Layer(i),
                  activations.Layer(i), scratch, AccumulatorsOf(gradients, i), dhidden);
  }
  if (context.range.first) {
    context.kernels->EmbeddingBackward(*context.parallel, batch.tokens, dhidden, config.hidden_size,
                                       gradients.gradient(gradients.embedding_index()));
  }
}

}  // namespace lockstep
