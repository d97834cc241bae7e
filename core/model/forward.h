#ifndef LOCKSTEP_CORE_MODEL_FORWARD_H_
#define LOCKSTEP_CORE_MODEL_FORWARD_H_

#include <vector>

#include "core/device/buffer.h"
#include "core/model/kv_arena.h"
#include "core/model/non_finite.h"
#include "core/model/stage_context.h"
#include "core/model/stage_weights.h"
#include "core/model/token_batch.h"
#include "kernels/shapes.h"

namespace lockstep {

// What one layer computes on its way, all of it fp32. Backward reads every member but `projected`;
// an inference forward writes the same members and lets the next layer overwrite them.
struct LayerActivations {
  Buffer<float> input;         // [M, H] residual stream into the layer
  Buffer<float> inverse_rms1;  // [M]
  Buffer<float> normed1;       // [M, H]
  Buffer<float> qkv;           // [M, q_width + 2 kv_width], q and k normed and rotated
  // With qk_norm, query and key before their norms, and the norms' inverse RMS. Empty without.
  Buffer<float> query_before;       // [M, q_width]
  Buffer<float> key_before;         // [M, kv_width]
  Buffer<float> query_inverse_rms;  // [M, heads]
  Buffer<float> key_inverse_rms;    // [M, kv_heads]
  Buffer<float> attention;          // [M, q_width]
  Buffer<float> log_sum_exp;        // [M, heads]
  Buffer<float> residual;           // [M, H] after attention
  Buffer<float> inverse_rms2;       // [M]
  Buffer<float> normed2;            // [M, H]
  Buffer<float> gate_up;            // [M, 2F]
  Buffer<float> activated;          // [M, F]
  Buffer<float> projected;          // [M, H] output of attention_out, then of down

  void Reserve(const ModelConfig& config, int64_t rows);
  // Elements that Reserve makes room for, a row.
  static int64_t FloatsPerRow(const ModelConfig& config);
  int64_t size() const;
};

// Gradients that live within the backward of one layer, all of it fp32.
struct LayerGradients {
  Buffer<float> normed;     // [M, H] of a norm's output
  Buffer<float> branch;     // [M, H] of a norm's input, before it joins the residual stream
  Buffer<float> qkv;        // [M, q_width + 2 kv_width]
  Buffer<float> attention;  // [M, q_width]
  Buffer<float> gate_up;    // [M, 2F]
  Buffer<float> activated;  // [M, F]

  void Reserve(const ModelConfig& config, int64_t rows);
  static int64_t FloatsPerRow(const ModelConfig& config);
  int64_t size() const;
};

// The activations of one stage's layers: one set per layer to keep them for backward, or a single
// set that every layer overwrites.
class Activations {
 public:
  enum class Keep { kAllLayers, kNothing };
  Activations(Keep keep, const StageContext& context);

  void Reserve(const ModelConfig& config, int64_t rows);
  // `layer` counts from the stage's first.
  LayerActivations& Layer(int64_t layer) {
    return layers_.size() == 1 ? layers_[0] : layers_[layer];
  }
  // Room for Backward, made by its first call.
  LayerGradients& Scratch() { return scratch_; }

 private:
  std::vector<LayerActivations> layers_;
  LayerGradients scratch_;
};

// The batch's sequences and the model's heads as the kernels take them; the spans borrow from
// `batch`. For Forward and Backward.
std::vector<kernels::SequenceRows> RowsOf(const TokenBatch& batch);
kernels::AttentionShape ShapeOf(const ModelConfig& config);

// The only forward in the repository. Runs the stage's layers over `batch`.
//
// hidden[M, H] is the residual stream: read as this stage's input (but on the first stage, which
// embeds the batch's tokens instead) and overwritten with its output. K and V of every row are
// written to their pages in `kv` before attention reads them.
//
// Returns the rows that stopped being finite up to the last norm of this stage's layers; what comes
// behind it shows in the next norm, the next stage's or the head's, or in the logits.
NonFiniteRows Forward(const StageContext& context, const WeightView& weights,
                      const TokenBatch& batch, KvArena& kv, Activations& activations,
                      float* hidden);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_FORWARD_H_
