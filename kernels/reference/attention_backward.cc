// Gradient of causal attention, softmax weights recomputed from the forward's log-sum-exp
// (Dao 2023, FlashAttention-2, algorithm 2, in our own order):
//
//   P_ij = exp(s_ij - lse_i)       D_i = dout_i . out_i      dP_ij = dout_i . v_j
//   dS_ij = P_ij * (dP_ij - D_i)   dq_i = scale * sum_j dS_ij k_j
//   dk_j = scale * sum_h,i dS_ij q_i      dv_j = sum_h,i P_ij dout_i
//
// Rule: sums over positions are cut into blocks of kAttentionBlock absolute positions, a chain from
// +0 each, added ascending. dk and dv take the query heads of the group one after the other.

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/fp_environment.h"
#include "kernels/reference/attention_scores.h"
#include "kernels/reference/reference_kernels.h"
#include "kernels/reference/row_reduction.h"
#include "kernels/reference/scalar.h"

namespace lockstep::kernels::reference {
namespace {

// One query head of one sequence: P and dS, [row_count, row_count], filled for j <= i.
struct HeadGradients {
  explicit HeadGradients(int64_t rows) : rows(rows), p(rows * rows), ds(rows * rows) {}

  float P(int64_t i, int64_t j) const { return p[i * rows + j]; }
  float Ds(int64_t i, int64_t j) const { return ds[i * rows + j]; }

  int64_t rows;
  std::vector<float> p;
  std::vector<float> ds;
};

// Sum over positions [begin, end), cut at multiples of kAttentionBlock: adds to `sum` one chain a
// block, `chain = extend(position, chain)`.
template <typename Extend>
float AddBlocks(float sum, int64_t begin, int64_t end, Extend extend) {
  while (begin < end) {
    const int64_t block_end = std::min((begin / kAttentionBlock + 1) * kAttentionBlock, end);
    float chain = 0.0f;
    for (int64_t i = begin; i < block_end; ++i) chain = extend(i, chain);
    sum = sum + chain;
    begin = block_end;
  }
  return sum;
}

// The parts of AttentionBackward's arguments that belong to one sequence; row i is position i.
struct SequenceView {
  const AttentionShape& shape;
  KvReader kv;
  int64_t rows;
  const float* q;
  int64_t q_stride;
  const float* out;
  const float* log_sum_exp;
  const float* dout;
  float* dqkv;
  int64_t dqkv_stride;

  const float* Query(int64_t head, int64_t i) const {
    return q + i * q_stride + head * shape.head_dim;
  }
  const float* Dout(int64_t head, int64_t i) const {
    return dout + (i * shape.q_heads + head) * shape.head_dim;
  }
  const float* Out(int64_t head, int64_t i) const {
    return out + (i * shape.q_heads + head) * shape.head_dim;
  }
  // `slot` counts heads of q | k | v.
  float* Gradient(int64_t slot, int64_t i) const {
    return dqkv + i * dqkv_stride + slot * shape.head_dim;
  }
};

HeadGradients ComputeHead(const SequenceView& view, int64_t head) {
  const AttentionShape& shape = view.shape;
  const int64_t kv_head = head / (shape.q_heads / shape.kv_heads);
  HeadGradients result(view.rows);
  for (int64_t i = 0; i < view.rows; ++i) {
    const float* dout = view.Dout(head, i);
    const float log_sum_exp = view.log_sum_exp[i * shape.q_heads + head];
    const float d_i = RowDot(dout, view.Out(head, i), shape.head_dim);
    for (int64_t j = 0; j <= i; ++j) {
      const float score =
          Score(view.Query(head, i), view.kv, kv_head, j, shape.head_dim, shape.scale);
      const float p = reference::Exp(score - log_sum_exp);
      float dp = 0.0f;
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        dp = std::fma(dout[d], view.kv.Value(kv_head, j, d), dp);
      }
      result.p[i * view.rows + j] = p;
      result.ds[i * view.rows + j] = p * (dp - d_i);
    }
  }
  return result;
}

void WriteQueryGradient(const SequenceView& view, int64_t head, const HeadGradients& gradients) {
  const AttentionShape& shape = view.shape;
  const int64_t kv_head = head / (shape.q_heads / shape.kv_heads);
  for (int64_t i = 0; i < view.rows; ++i) {
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      const float sum = AddBlocks(0.0f, 0, i + 1, [&](int64_t j, float chain) {
        return std::fma(gradients.Ds(i, j), view.kv.Key(kv_head, j, d), chain);
      });
      view.Gradient(head, i)[d] = Finish(sum * shape.scale);
    }
  }
}

// group: gradients of the query heads that read kv_head, ascending.
void WriteKeyValueGradient(const SequenceView& view, int64_t kv_head,
                           const std::vector<HeadGradients>& group) {
  const AttentionShape& shape = view.shape;
  const int64_t first_head = kv_head * static_cast<int64_t>(group.size());
  for (int64_t j = 0; j < view.rows; ++j) {
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      float dk = 0.0f;
      float dv = 0.0f;
      for (size_t member = 0; member < group.size(); ++member) {
        const int64_t head = first_head + static_cast<int64_t>(member);
        dk = AddBlocks(dk, j, view.rows, [&](int64_t i, float chain) {
          return std::fma(group[member].Ds(i, j), view.Query(head, i)[d], chain);
        });
        dv = AddBlocks(dv, j, view.rows, [&](int64_t i, float chain) {
          return std::fma(group[member].P(i, j), view.Dout(head, i)[d], chain);
        });
      }
      view.Gradient(shape.q_heads + kv_head, j)[d] = Finish(dk * shape.scale);
      view.Gradient(shape.q_heads + shape.kv_heads + kv_head, j)[d] = Finish(dv);
    }
  }
}

}  // namespace

void ReferenceKernels::AttentionBackward(Parallel& /*parallel*/, const AttentionShape& shape,
                                         const float* q, int64_t q_stride,
                                         absl::Span<const SequenceRows> sequences,
                                         const KvPages& kv, const float* out,
                                         const float* log_sum_exp, const float* dout, float* dqkv,
                                         int64_t dqkv_stride) const {
  FpEnvironment environment;
  for (const SequenceRows& sequence : sequences) {
    const int64_t row = sequence.row_begin;
    const int64_t out_stride = shape.q_heads * shape.head_dim;
    const SequenceView view = {.shape = shape,
                               .kv = KvReader(profile_, kv, sequence),
                               .rows = sequence.row_count,
                               .q = q + row * q_stride,
                               .q_stride = q_stride,
                               .out = out + row * out_stride,
                               .log_sum_exp = log_sum_exp + row * shape.q_heads,
                               .dout = dout + row * out_stride,
                               .dqkv = dqkv + row * dqkv_stride,
                               .dqkv_stride = dqkv_stride};
    for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      const int64_t group_size = shape.q_heads / shape.kv_heads;
      std::vector<HeadGradients> group;
      for (int64_t member = 0; member < group_size; ++member) {
        const int64_t head = kv_head * group_size + member;
        group.push_back(ComputeHead(view, head));
        WriteQueryGradient(view, head, group.back());
      }
      WriteKeyValueGradient(view, kv_head, group);
    }
  }
}

}  // namespace lockstep::kernels::reference
