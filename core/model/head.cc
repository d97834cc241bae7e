#include "core/model/head.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "kernels/shapes.h"

namespace lockstep {

static_assert(kHeadRows == kernels::kTokenChunk,
              "a group of rows must hold whole datum chunks and be able to hold one");

namespace {

// Consecutive rows [begins.front(), begins.back()) that go through the head together, and where the
// datum chunks among them begin.
struct RowGroup {
  int64_t first = 0;
  std::vector<int64_t> chunk_begins;  // from 0, relative to `first`; the row count behind the last

  int64_t count() const { return chunk_begins.back(); }
};

// Cuts every datum into chunks of kTokenChunk and packs as many whole chunks into a group as
// kHeadRows holds. A chunk is one FMA chain of the weight gradient and is never cut, so how chunks
// fall into groups moves no bit.
std::vector<RowGroup> GroupChunks(absl::Span<const int64_t> datum_begins) {
  std::vector<RowGroup> groups;
  for (size_t datum = 0; datum + 1 < datum_begins.size(); ++datum) {
    const int64_t end = datum_begins[datum + 1];
    for (int64_t row = datum_begins[datum]; row < end; row += kernels::kTokenChunk) {
      const int64_t count = std::min(kernels::kTokenChunk, end - row);
      if (groups.empty() || groups.back().count() + count > kHeadRows) {
        groups.push_back({row, {0}});
      }
      groups.back().chunk_begins.push_back(groups.back().count() + count);
    }
  }
  return groups;
}

}  // namespace

Head::Head(const StageContext& context)
    : context_(context),
      gathered_(kHeadRows * context.config->hidden_size),
      normed_(kHeadRows * context.config->hidden_size),
      inverse_rms_(kHeadRows),
      logits_(kHeadRows * context.config->vocab_size),
      dnormed_(kHeadRows * context.config->hidden_size) {
  LOCKSTEP_CHECK(context.range.last) << "only the last stage has a head";
}

void Head::NormAndProject(const StageWeights& weights, const float* hidden, int64_t count) {
  const ModelConfig& config = *context_.config;
  context_.kernels->RmsNorm(*context_.parallel, hidden, weights.final_norm.data(), count,
                            config.hidden_size, config.rms_norm_epsilon, normed_.data(),
                            inverse_rms_.data());
  context_.kernels->MatMul(*context_.parallel, normed_.data(), count, weights.head_matrix(),
                           logits_.data());
}

void Head::Logits(const WeightView& weights, const float* hidden, absl::Span<const int32_t> rows,
                  absl::FunctionRef<void(int64_t first, int64_t count, float* logits)> consume) {
  const int64_t width = context_.config->hidden_size;
  const int64_t total = static_cast<int64_t>(rows.size());
  for (int64_t first = 0; first < total; first += kHeadRows) {
    const int64_t count = std::min(kHeadRows, total - first);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(gathered_.data() + i * width, hidden + rows[first + i] * width,
                  static_cast<size_t>(width) * sizeof(float));
    }
    NormAndProject(*weights.base, gathered_.data(), count);
    consume(first, count, logits_.data());
  }
}

Head::TokenStatistics Head::Statistics(const WeightView& weights, const float* hidden,
                                       absl::Span<const float> temperature,
                                       absl::Span<const int32_t> target) {
  const ModelConfig& config = *context_.config;
  const int64_t total = static_cast<int64_t>(target.size());
  TokenStatistics out;
  out.log_prob.resize(total);
  out.log_sum_exp.resize(total);
  out.entropy.resize(total);
  for (int64_t first = 0; first < total; first += kHeadRows) {
    const int64_t count = std::min(kHeadRows, total - first);
    NormAndProject(*weights.base, hidden + first * config.hidden_size, count);
    context_.kernels->LogProb(*context_.parallel, logits_.data(), count, config.vocab_size,
                              temperature.data() + first, target.data() + first,
                              out.log_sum_exp.data() + first, out.log_prob.data() + first,
                              out.entropy.data() + first);
  }
  return out;
}

void Head::Backward(const WeightView& weights, const float* hidden,
                    absl::Span<const int64_t> datum_begins, absl::Span<const float> temperature,
                    absl::Span<const int32_t> target, absl::Span<const float> log_sum_exp,
                    absl::Span<const float> coefficient, OptimizerState& gradients,
                    float* dhidden) {
  const ModelConfig& config = *context_.config;
  const kernels::Kernels& op = *context_.kernels;
  kernels::Parallel& parallel = *context_.parallel;
  float* dhead = gradients.head_gradient();
  float* dnorm = gradients.gradient(gradients.final_norm_index());
  for (const RowGroup& group : GroupChunks(datum_begins)) {
    const int64_t first = group.first;
    const int64_t count = group.count();
    const int64_t offset = first * config.hidden_size;
    NormAndProject(*weights.base, hidden + offset, count);
    op.LogProbBackward(parallel, logits_.data(), count, config.vocab_size,
                       temperature.data() + first, target.data() + first,
                       log_sum_exp.data() + first, coefficient.data() + first);
    op.MatMulBackwardWeight(parallel, logits_.data(), normed_.data(), group.chunk_begins,
                            config.vocab_size, config.hidden_size, dhead);
    op.MatMulBackwardInput(parallel, logits_.data(), count, weights.base->head_matrix(),
                           dnormed_.data());
    op.RmsNormBackward(parallel, hidden + offset, weights.base->final_norm.data(),
                       inverse_rms_.data(), dnormed_.data(), group.chunk_begins, config.hidden_size,
                       dhidden + offset, dnorm);
  }
}

}  // namespace lockstep
