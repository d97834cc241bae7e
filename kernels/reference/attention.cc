// Causal attention over paged K and V. Rule: keys are taken in blocks of kAttentionBlock absolute
// positions. A block has a softmax of its own (maximum m, sum l, weighted values o); blocks are
// merged into (M, L, O) ascending. Blocks and keys behind the query's position do not enter, and
// neither does the page size.

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/fp_environment.h"
#include "kernels/reference/attention_scores.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/row_reduction.h"
#include "kernels/reference/scalar.h"

namespace lockstep::kernels::reference {
namespace {

// Softmax numerator state of one (row, query head): softmax weights are exp(s - max) / sum.
struct Partial {
  explicit Partial(int64_t head_dim) : output(head_dim, 0.0f) {}

  float max = -kInfinity;
  float sum = 0.0f;
  std::vector<float> output;  // [head_dim], sum of exp(s - max) * v
};

// The keys at [begin, end) of one block alone.
Partial AttendBlock(const AttentionShape& shape, const float* query, const KvReader& kv,
                    int64_t kv_head, int64_t begin, int64_t end) {
  Partial block(shape.head_dim);
  const int64_t count = end - begin;
  std::array<float, kAttentionBlock> weights;  // scores, then exp(score - max)
  for (int64_t j = 0; j < count; ++j) {
    weights[j] = Score(query, kv, kv_head, begin + j, shape.head_dim, shape.scale);
  }
  block.max = RowMax(weights.data(), count);
  for (int64_t j = 0; j < count; ++j) weights[j] = reference::Exp(weights[j] - block.max);
  block.sum = RowSum(weights.data(), count);
  for (int64_t d = 0; d < shape.head_dim; ++d) {
    float chain = 0.0f;
    for (int64_t j = 0; j < count; ++j) {
      chain = std::fma(weights[j], kv.Value(kv_head, begin + j, d), chain);
    }
    block.output[d] = chain;
  }
  return block;
}

void Merge(const Partial& block, Partial& total) {
  const float max = Max(total.max, block.max);
  const float scale_total = reference::Exp(total.max - max);
  const float scale_block = reference::Exp(block.max - max);
  total.sum = std::fma(total.sum, scale_total, block.sum * scale_block);
  for (size_t d = 0; d < total.output.size(); ++d) {
    total.output[d] = std::fma(total.output[d], scale_total, block.output[d] * scale_block);
  }
  total.max = max;
}

}  // namespace

void ReferenceKernels::StoreKv(Parallel& /*parallel*/, const float* k, const float* v,
                               int64_t stride, absl::Span<const SequenceRows> sequences,
                               const KvPages& kv) const {
  for (const SequenceRows& sequence : sequences) {
    const KvReader pages(profile_, kv, sequence);
    for (int64_t i = 0; i < sequence.row_count; ++i) {
      const int64_t position = sequence.first_position + i;
      for (int64_t head = 0; head < kv.kv_heads; ++head) {
        const int64_t offset = (sequence.row_begin + i) * stride + head * kv.head_dim;
        for (int64_t d = 0; d < kv.head_dim; ++d) {
          pages.WriteKey(head, position, d, k[offset + d]);
          pages.WriteValue(head, position, d, v[offset + d]);
        }
      }
    }
  }
}

void ReferenceKernels::Attention(Parallel& /*parallel*/, const AttentionShape& shape,
                                 const float* q, int64_t q_stride,
                                 absl::Span<const SequenceRows> sequences, const KvPages& kv,
                                 float* out, float* log_sum_exp) const {
  FpEnvironment environment;
  const int64_t group = shape.q_heads / shape.kv_heads;
  for (const SequenceRows& sequence : sequences) {
    const KvReader pages(profile_, kv, sequence);
    for (int64_t i = 0; i < sequence.row_count; ++i) {
      const int64_t row = sequence.row_begin + i;
      const int64_t keys = sequence.first_position + i + 1;
      for (int64_t head = 0; head < shape.q_heads; ++head) {
        const float* query = q + row * q_stride + head * shape.head_dim;
        Partial total(shape.head_dim);
        for (int64_t begin = 0; begin < keys; begin += kAttentionBlock) {
          const int64_t end = std::min(begin + kAttentionBlock, keys);
          const Partial block = AttendBlock(shape, query, pages, head / group, begin, end);
          if (begin == 0) {
            total = block;
          } else {
            Merge(block, total);
          }
        }
        float* out_head = out + (row * shape.q_heads + head) * shape.head_dim;
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          out_head[d] = Finish(total.output[d] / total.sum);
        }
        if (log_sum_exp != nullptr) {
          log_sum_exp[row * shape.q_heads + head] = Finish(total.max + reference::Log(total.sum));
        }
      }
    }
  }
}

}  // namespace lockstep::kernels::reference
