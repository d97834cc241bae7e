#ifndef LOCKSTEP_CORE_MODEL_OPTIMIZER_STATE_H_
#define LOCKSTEP_CORE_MODEL_OPTIMIZER_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/model/param_spec.h"
#include "core/model/stage_weights.h"
#include "kernels/kernels.h"

namespace lockstep {

// The fp32 master weights, AdamW moments and gradient accumulators of one stage, each one
// contiguous array in canonical order, and the making of compute weights from them.
//
// Owned by the stage's thread. Not synchronised.
class OptimizerState {
 public:
  OptimizerState(const ModelConfig& config, const StageRange& range);

  const std::vector<ParamSpec>& params() const { return params_; }

  // All masters, tensor behind tensor as in params().
  float* masters() { return master_.data(); }
  // [size of params()[index]], row-major.
  float* master(int index);
  float* moment1(int index);
  float* moment2(int index);
  // The accumulator that the backward adds to. `+=` everywhere. This one and the next are asked for
  // anew after ZeroGradients.
  float* gradient(int index);
  // The head's own accumulator [V, H]: the gradient of lm_head, kept apart from the embedding's
  // scatter when the two are tied, for every stage count.
  float* head_gradient();

  // Index into params() of a tensor by its place; -1 where this stage does not hold it. On a tied
  // model's last stage head_index() is embedding_index(): one tensor, two places.
  int embedding_index() const { return embedding_; }
  int final_norm_index() const { return final_norm_; }
  int head_index() const { return head_; }
  // First of the layer's tensors, the others at the places of layer_tensors(). `layer` counts from
  // this stage's first.
  int layer_index(int64_t layer) const {
    return layer_begin_ + static_cast<int>(layer) * layer_tensors_.count;
  }
  const LayerTensors& layer_tensors() const { return layer_tensors_; }

  // Adds the two accumulators of a tied embedding: gradient(embedding) + head, in this order.
  // `other_end` is the accumulator that came from the other end of the pipeline, null when this
  // stage holds both ends.
  void CombineTied(const kernels::Kernels& kernels, kernels::Parallel& parallel,
                   const float* other_end);

  // Sum of squares per tensor, params() order. A tied copy on the last stage reports 0: the first
  // stage counts it.
  std::vector<double> SumsOfSquares(const kernels::Kernels& kernels, kernels::Parallel& parallel);

  // AdamW on every trainable tensor, in place. Decay is zero for tensors with decay == false.
  void Apply(const kernels::Kernels& kernels, kernels::Parallel& parallel,
             const kernels::AdamWScalars& scalars);
  void ZeroGradients();

  // Packs the masters as they are now.
  std::shared_ptr<const StageWeights> MakeWeights(const kernels::Kernels& kernels,
                                                  kernels::Parallel& parallel,
                                                  uint64_t version) const;

  // Digests over this stage's share, a tied embedding on the first stage alone: the sum over all
  // stages does not depend on how the model is cut. Moments use the index space twice: moment1
  // from canonical_begin, moment2 from canonical_begin + total parameter count.
  kernels::Digest128 WeightsDigest(const kernels::Kernels& kernels,
                                   kernels::Parallel& parallel) const;
  kernels::Digest128 MomentsDigest(const kernels::Kernels& kernels,
                                   kernels::Parallel& parallel) const;

 private:
  // A tied embedding that the first stage, another one, answers for.
  bool IsTiedCopy(int index) const { return index == embedding_ && !range_.first; }
  kernels::Digest128 DigestOf(const kernels::Kernels& kernels, kernels::Parallel& parallel,
                              const Buffer<float>& values, int64_t index_begin) const;

  const ModelConfig config_;
  const StageRange range_;
  const LayerTensors layer_tensors_;
  const std::vector<ParamSpec> params_;
  std::vector<int64_t> offsets_;  // of each tensor in the arrays below
  int embedding_ = -1;
  int final_norm_ = -1;
  int head_ = -1;
  int layer_begin_ = 0;  // index of the first layer's first tensor
  Buffer<float> master_;
  Buffer<float> moment1_;
  Buffer<float> moment2_;
  Buffer<float> gradient_;
  Buffer<float> tied_head_gradient_;  // [V, H] on the last stage of a tied model, else empty
  // Nobody was handed a gradient since they were last zeroed. Writing zeros over those of the start
  // would make the kernel back them with memory.
  bool gradients_are_zero_ = true;
  // Nobody was handed a moment: their digest is that of zeros, which is 0.
  bool moments_are_zero_ = true;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_OPTIMIZER_STATE_H_
