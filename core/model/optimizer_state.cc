#include "core/model/optimizer_state.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {
namespace {

int64_t TotalSize(const std::vector<ParamSpec>& params) {
  int64_t total = 0;
  for (const ParamSpec& spec : params) total += spec.size();
  return total;
}

// Elements of the whole model: where the moments' second index space begins.
int64_t CanonicalSize(const ModelConfig& config) {
  const ParamSpec last = ModelParams(config).back();
  return last.canonical_begin + last.size();
}

// Backs fresh memory with huge pages, as all threads: two that write to one for the first time, as
// they do to a tensor, wait for each other while the kernel clears it. Where there are none, this
// does nearly nothing.
void TouchPages(kernels::Parallel& parallel, Buffer<uint8_t>& memory) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  parallel.For((memory.size() + kHugePage - 1) / kHugePage, 1, [&](int64_t begin, int64_t end) {
    for (int64_t page = begin; page < end; ++page) memory[page * kHugePage] = 0;
  });
}

}  // namespace

OptimizerState::OptimizerState(const ModelConfig& config, const StageRange& range)
    : config_(config),
      range_(range),
      layer_tensors_(config),
      params_(StageParams(config, range)),
      master_(TotalSize(params_)),
      moment1_(master_.size()),
      moment2_(master_.size()),
      gradient_(master_.size()) {
  int64_t offset = 0;
  for (const ParamSpec& spec : params_) {
    offsets_.push_back(offset);
    offset += spec.size();
  }
  const bool tied = config.tie_word_embeddings;
  const int count = static_cast<int>(params_.size());
  const bool holds_embedding = range.first || (range.last && tied);
  if (holds_embedding) embedding_ = 0;
  layer_begin_ = holds_embedding ? 1 : 0;
  if (range.last) {
    head_ = tied ? embedding_ : count - 1;
    final_norm_ = tied ? count - 1 : count - 2;
    if (tied) tied_head_gradient_ = Buffer<float>(config.vocab_size * config.hidden_size);
  }
}

float* OptimizerState::master(int index) { return master_.data() + offsets_[index]; }
float* OptimizerState::moment1(int index) {
  moments_are_zero_ = false;
  return moment1_.data() + offsets_[index];
}
float* OptimizerState::moment2(int index) {
  moments_are_zero_ = false;
  return moment2_.data() + offsets_[index];
}
float* OptimizerState::gradient(int index) {
  gradients_are_zero_ = false;
  return gradient_.data() + offsets_[index];
}

float* OptimizerState::head_gradient() {
  LOCKSTEP_CHECK(range_.last) << "only the last stage has a head";
  gradients_are_zero_ = false;
  return config_.tie_word_embeddings ? tied_head_gradient_.data() : gradient(head_);
}

void OptimizerState::CombineTied(const kernels::Kernels& kernels, kernels::Parallel& parallel,
                                 const float* other_end) {
  LOCKSTEP_CHECK(config_.tie_word_embeddings && embedding_ >= 0) << "nothing tied on this stage";
  LOCKSTEP_CHECK_EQ(other_end == nullptr, range_.first && range_.last);
  float* combined = gradient(embedding_);
  const float* scatter = range_.first ? combined : other_end;
  const float* head = range_.last ? tied_head_gradient_.data() : other_end;
  kernels.Add(parallel, scatter, head, params_[embedding_].size(), combined);
}

std::vector<double> OptimizerState::SumsOfSquares(const kernels::Kernels& kernels,
                                                  kernels::Parallel& parallel) {
  std::vector<double> sums;
  for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
    sums.push_back(IsTiedCopy(i) ? 0.0
                                 : kernels.SumOfSquares(parallel, gradient(i), params_[i].size()));
  }
  return sums;
}

void OptimizerState::Apply(const kernels::Kernels& kernels, kernels::Parallel& parallel,
                           const kernels::AdamWScalars& scalars) {
  kernels::AdamWScalars without_decay = scalars;
  without_decay.decay = 0;
  for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
    if (!params_[i].trainable) continue;
    kernels.AdamW(parallel, params_[i].decay ? scalars : without_decay, params_[i].size(),
                  gradient(i), master(i), moment1(i), moment2(i));
  }
}

void OptimizerState::ZeroGradients() {
  if (gradients_are_zero_) return;
  std::fill_n(gradient_.data(), gradient_.size(), 0.0f);
  std::fill_n(tied_head_gradient_.data(), tied_head_gradient_.size(), 0.0f);
  gradients_are_zero_ = true;
}

std::shared_ptr<const StageWeights> OptimizerState::MakeWeights(const kernels::Kernels& kernels,
                                                                kernels::Parallel& parallel,
                                                                uint64_t version) const {
  auto weights = std::make_shared<StageWeights>();
  weights->version = version;
  weights->memory = Buffer<uint8_t>(StageWeightsBytes(config_, range_, kernels.profile()));
  TouchPages(parallel, weights->memory);
  int64_t used = 0;
  const auto take = [&](int64_t bytes) {
    uint8_t* piece = weights->memory.data() + used;
    used += bytes;
    return piece;
  };
  const auto pack = [&](int index, int64_t rows, int64_t cols) {
    void* panels = take(PackedWeightBytes(kernels.profile(), rows, cols));
    kernels.Pack(parallel, master_.data() + offsets_[index], rows, cols, panels);
    return kernels::PackedMatrix{panels, rows, cols};
  };
  const auto copy = [&](int index, int64_t size) {
    auto* values = reinterpret_cast<float*>(take(VectorWeightBytes(size)));
    std::copy_n(master_.data() + offsets_[index], size, values);
    return absl::Span<const float>(values, static_cast<size_t>(size));
  };
  const int64_t hidden = config_.hidden_size;
  const LayerTensors& tensors = layer_tensors_;

  if (range_.first) weights->embedding = pack(embedding_, config_.vocab_size, hidden);
  for (int64_t i = 0; i < range_.layer_end - range_.layer_begin; ++i) {
    const int first = layer_index(i);
    LayerWeights& layer = weights->layers.emplace_back();
    layer.input_norm = copy(first + tensors.input_norm, hidden);
    layer.qkv = pack(first + tensors.query, config_.qkv_width(), hidden);
    if (config_.qkv_bias) layer.qkv_bias = copy(first + tensors.query_bias, config_.qkv_width());
    if (config_.qk_norm) {
      layer.query_norm = copy(first + tensors.query_norm, config_.head_dim);
      layer.key_norm = copy(first + tensors.query_norm + 1, config_.head_dim);
    }
    layer.attention_out = pack(first + tensors.attention_out, hidden, config_.q_width());
    layer.post_attention_norm = copy(first + tensors.post_attention_norm, hidden);
    layer.gate_up = pack(first + tensors.gate, 2 * config_.intermediate_size, hidden);
    layer.down = pack(first + tensors.down, hidden, config_.intermediate_size);
  }
  if (range_.last) {
    weights->final_norm = copy(final_norm_, hidden);
    weights->head_is_embedding = head_ == embedding_ && range_.first;
    if (!weights->head_is_embedding) weights->head = pack(head_, config_.vocab_size, hidden);
  }
  LOCKSTEP_CHECK_EQ(used, weights->memory.size());
  return weights;
}

kernels::Digest128 OptimizerState::WeightsDigest(const kernels::Kernels& kernels,
                                                 kernels::Parallel& parallel) const {
  return DigestOf(kernels, parallel, master_, 0);
}

kernels::Digest128 OptimizerState::MomentsDigest(const kernels::Kernels& kernels,
                                                 kernels::Parallel& parallel) const {
  if (moments_are_zero_) return {};
  kernels::Digest128 digest = DigestOf(kernels, parallel, moment1_, 0);
  digest += DigestOf(kernels, parallel, moment2_, CanonicalSize(config_));
  return digest;
}

kernels::Digest128 OptimizerState::DigestOf(const kernels::Kernels& kernels,
                                            kernels::Parallel& parallel,
                                            const Buffer<float>& values,
                                            int64_t index_begin) const {
  kernels::Digest128 digest;
  for (size_t t = IsTiedCopy(0) ? 1 : 0; t < params_.size(); ++t) {
    digest += kernels.Digest(parallel, values.data() + offsets_[t], params_[t].size(),
                             static_cast<uint64_t>(params_[t].canonical_begin + index_begin));
  }
  return digest;
}

}  // namespace lockstep
