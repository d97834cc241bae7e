#ifndef LOCKSTEP_KERNELS_CPU_ATTENTION_INL_H_
#define LOCKSTEP_KERNELS_CPU_ATTENTION_INL_H_

// Bodies of CpuKernels: attention over KV pages.

#include <cstdint>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/grain.h"
#include "kernels/cpu/kv_view.h"
#include "kernels/fp_environment.h"

namespace lockstep::kernels::cpu {

template <class V, class Element>
void CpuKernels<V, Element>::StoreKv(Parallel& parallel, const float* k, const float* v,
                                     int64_t stride, absl::Span<const SequenceRows> sequences,
                                     const KvPages& kv) const {
  const int64_t items = static_cast<int64_t>(sequences.size()) * kv.kv_heads;
  parallel.For(items, GrainRows(kv.head_dim), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t item = begin; item < end; ++item) {
      const SequenceRows& sequence = sequences[item / kv.kv_heads];
      const int64_t head = item % kv.kv_heads;
      const int64_t from = sequence.row_begin * stride + head * kv.head_dim;
      const KvView<V, Element> view{kv, sequence.pages.data(), head};
      view.Write(sequence.first_position, sequence.row_count, k + from, v + from, stride);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::Attention(Parallel& parallel, const AttentionShape& shape,
                                       const float* q, int64_t q_stride,
                                       absl::Span<const SequenceRows> sequences, const KvPages& kv,
                                       float* out, float* log_sum_exp) const {
  const AttentionArguments arguments = {.shape = shape,
                                        .q = q,
                                        .q_stride = q_stride,
                                        .kv = kv,
                                        .out = out,
                                        .log_sum_exp = log_sum_exp};
  const int64_t items = AttentionItems<V>(sequences, shape.kv_heads);
  parallel.For(items, 1, [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    ForEachAttentionItem<V>(
        sequences, shape.kv_heads, begin, end,
        [&](const SequenceRows& sequence, int64_t first, int64_t rows, int64_t kv_head) {
          AttentionItem<V, Element>(arguments, sequence.pages.data(), kv_head,
                                    sequence.row_begin + first, rows,
                                    sequence.first_position + first)
              .Run();
        });
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::AttentionBackward(Parallel& parallel, const AttentionShape& shape,
                                               const float* q, int64_t q_stride,
                                               absl::Span<const SequenceRows> sequences,
                                               const KvPages& kv, const float* out,
                                               const float* log_sum_exp, const float* dout,
                                               float* dqkv, int64_t dqkv_stride) const {
  const int64_t out_stride = shape.q_heads * shape.head_dim;
  const int64_t items = static_cast<int64_t>(sequences.size()) * shape.kv_heads;
  parallel.For(items, 1, [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t item = begin; item < end; ++item) {
      const SequenceRows& sequence = sequences[item / shape.kv_heads];
      const int64_t row = sequence.row_begin;
      const AttentionBackwardArguments arguments = {
          .shape = shape,
          .q = q + row * q_stride,
          .q_stride = q_stride,
          .kv = kv,
          .pages = sequence.pages.data(),
          .rows = sequence.row_count,
          .out = out + row * out_stride,
          .log_sum_exp = log_sum_exp + row * shape.q_heads,
          .dout = dout + row * out_stride,
          .dqkv = dqkv + row * dqkv_stride,
          .dqkv_stride = dqkv_stride};
      AttentionBackwardItem<V, Element>(arguments, item % shape.kv_heads).Run();
    }
  });
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ATTENTION_INL_H_
