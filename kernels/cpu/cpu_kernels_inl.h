#ifndef LOCKSTEP_KERNELS_CPU_CPU_KERNELS_INL_H_
#define LOCKSTEP_KERNELS_CPU_CPU_KERNELS_INL_H_

// Bodies of CpuKernels. Included by the one file of each instruction set that instantiates them.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/cpu/adamw.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/digest.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/kv_view.h"
#include "kernels/cpu/log_prob.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_backward_weight.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/token_columns.h"
#include "kernels/fp_environment.h"

namespace lockstep::kernels::cpu {

// The least work worth waking a thread for, in elements read: some microseconds of it.
inline constexpr int64_t kGrainElements = 8192;

// Rows of `width` elements that make up that work.
constexpr int64_t GrainRows(int64_t width) {
  return std::max(int64_t{1}, kGrainElements / std::max(width, int64_t{1}));
}

constexpr int64_t Panels(int64_t n) { return (n + kPanelWidth - 1) / kPanelWidth; }

// Calls body(row, rows, panel) for every pair of a block of kProductRows rows and a panel, panels
// of a block running fastest, so that a thread streams neighbouring panels past rows that stay in
// cache.
template <class V, class Body>
void ForEachProductBlock(Parallel& parallel, int64_t m, int64_t panels, Body body) {
  const int64_t row_blocks = (m + kProductRows - 1) / kProductRows;
  parallel.For(row_blocks * panels, 1, [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / panels * kProductRows;
      body(row, std::min(kProductRows, m - row), item % panels);
    }
  });
}

// Calls body(rows, stride) with the rows of x[m, k] as the operand that an Element takes: rounded
// in bf16, as floats or as pairs; `stride` counts lanes.
template <class V, class Body>
void WithOperand(Parallel& /*parallel*/, const float* x, int64_t /*m*/, int64_t k,
                 Fp32Element /*element*/, Body body) {
  body(x, k);
}
template <class V, class T>
void RoundRows(Parallel& parallel, const float* x, int64_t m, int64_t k, T* rounded) {
  parallel.For(m, GrainRows(k), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      RoundRow<V>(x + row * k, k, rounded + row * EvenOf(k));
    }
  });
}
template <class V, class Body>
void WithOperand(Parallel& parallel, const float* x, int64_t m, int64_t k, Bf16Element /*element*/,
                 Body body) {
  Scratch<V> scratch(m * EvenOf(k));
  float* rounded = scratch.Take(m * EvenOf(k));
  RoundRows<V>(parallel, x, m, k, rounded);
  body(rounded, EvenOf(k));
}
template <class V, class Body>
void WithOperand(Parallel& parallel, const float* x, int64_t m, int64_t k,
                 Bf16DotElement /*element*/, Body body) {
  const int64_t lanes = EvenOf(k) / 2;
  Scratch<V> scratch(m * lanes);
  float* pairs = scratch.Take(m * lanes);
  RoundRows<V>(parallel, x, m, k, reinterpret_cast<uint16_t*>(pairs));
  body(pairs, lanes);
}

template <class V, class Element>
void CpuKernels<V, Element>::Pack(Parallel& parallel, const float* w, int64_t n, int64_t k,
                                  void* panels) const {
  parallel.For(Panels(n), GrainRows(k * kPanelWidth), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    PackPanels<V, Element>(w, n, k, begin, end, static_cast<float*>(panels));
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::MatMul(Parallel& parallel, const float* x, int64_t m,
                                    const PackedMatrix& w, float* y) const {
  WithOperand<V>(parallel, x, m, w.k, Element{}, [&](const float* operand, int64_t stride) {
    ForEachProductBlock<V>(parallel, m, Panels(w.n), [&](int64_t row, int64_t rows, int64_t panel) {
      MatMulBlock<V, Element>(operand, stride, w, row, rows, panel, y);
    });
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::MatMulBackwardInput(Parallel& parallel, const float* dy, int64_t m,
                                                 const PackedMatrix& w, float* dx) const {
  WithOperand<V>(parallel, dy, m, w.n, Element{}, [&](const float* operand, int64_t stride) {
    ForEachProductBlock<V>(parallel, m, Panels(w.k), [&](int64_t row, int64_t rows, int64_t panel) {
      MatMulBackwardInputBlock<V, Element>(operand, stride, w, row, rows, panel, dx);
    });
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::MatMulBackwardWeight(Parallel& parallel, const float* dy,
                                                  const float* x,
                                                  absl::Span<const int64_t> datum_begins, int64_t n,
                                                  int64_t k, float* dw) const {
  parallel.For(n, kWeightGradientRowsMin, [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    MatMulBackwardWeightRows<V, Element>(dy, x, datum_begins, n, k, begin, end, dw);
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::Embedding(Parallel& parallel, absl::Span<const int32_t> token_ids,
                                       const PackedMatrix& table, float* y) const {
  const int64_t m = static_cast<int64_t>(token_ids.size());
  parallel.For(m, GrainRows(table.k), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      EmbeddingRow<V>(table, token_ids[row], Element{}, y + row * table.k);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::EmbeddingBackward(Parallel& parallel,
                                               absl::Span<const int32_t> token_ids, const float* dy,
                                               int64_t k, float* dtable) const {
  const int64_t m = static_cast<int64_t>(token_ids.size());
  parallel.For(k, GrainRows(m), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    EmbeddingBackwardColumns<V>(token_ids, dy, k, begin, end, dtable);
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::RmsNorm(Parallel& parallel, const float* x, const float* weight,
                                     int64_t m, int64_t h, float epsilon, float* y,
                                     float* inverse_rms) const {
  parallel.For(m, GrainRows(h), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      inverse_rms[row] = RmsNormRow<V>(x + row * h, weight, h, epsilon, y + row * h);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::RmsNormBackward(Parallel& parallel, const float* x,
                                             const float* weight, const float* inverse_rms,
                                             const float* dy,
                                             absl::Span<const int64_t> datum_begins, int64_t h,
                                             float* dx, float* dweight) const {
  const int64_t m = datum_begins.back();
  parallel.For(m, GrainRows(h), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      RmsNormBackwardRow<V>(x + row * h, weight, inverse_rms[row], dy + row * h, h, dx + row * h);
    }
  });
  parallel.For(h, GrainRows(m), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    const auto dy_row = [=](int64_t row) { return dy + row * h; };
    RmsNormBackwardWeightColumns<V>(x, inverse_rms, dy_row, datum_begins, h, begin, end, dweight);
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::HeadNorm(Parallel& parallel, float* x, int64_t stride,
                                      const float* weight, int64_t m, int64_t heads,
                                      int64_t head_dim, float epsilon, float* before,
                                      float* inverse_rms) const {
  const int64_t width = heads * head_dim;
  parallel.For(m, GrainRows(width), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      float* kept = before + row * width;
      std::copy_n(x + row * stride, width, kept);
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t offset = head * head_dim;
        inverse_rms[row * heads + head] =
            RmsNormRow<V>(kept + offset, weight, head_dim, epsilon, x + row * stride + offset);
      }
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::HeadNormBackward(Parallel& parallel, const float* before,
                                              const float* weight, const float* inverse_rms,
                                              absl::Span<const int64_t> datum_begins, int64_t heads,
                                              int64_t head_dim, float* dx, int64_t stride,
                                              float* dweight) const {
  const int64_t m = datum_begins.back();
  const auto head_row = [=](int64_t row) {
    return dx + row / heads * stride + row % heads * head_dim;
  };
  // A row is a head of a token. The weight goes first: it needs what dx still holds.
  const std::unique_ptr<int64_t[]> begins(new int64_t[datum_begins.size()]);
  for (size_t i = 0; i < datum_begins.size(); ++i) begins[i] = datum_begins[i] * heads;
  parallel.For(head_dim, GrainRows(m * heads), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    RmsNormBackwardWeightColumns<V>(before, inverse_rms, head_row,
                                    {begins.get(), datum_begins.size()}, head_dim, begin, end,
                                    dweight);
  });
  parallel.For(m * heads, GrainRows(head_dim), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      RmsNormBackwardRow<V>(before + row * head_dim, weight, inverse_rms[row], head_row(row),
                            head_dim, head_row(row));
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::AddBias(Parallel& parallel, const float* bias, int64_t m, int64_t n,
                                     float* y) const {
  parallel.For(m, GrainRows(n), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) AddElements<V>(y + row * n, bias, n, y + row * n);
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::AddBiasBackward(Parallel& parallel, const float* dy,
                                             absl::Span<const int64_t> datum_begins, int64_t n,
                                             float* dbias) const {
  parallel.For(n, GrainRows(datum_begins.back()), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    AddTokenColumns<V>(datum_begins, begin, end, dbias,
                       [=](int64_t row, int64_t column, auto lanes, V chain) {
                         return chain + lanes.Load(dy + row * n + column);
                       });
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::Add(Parallel& parallel, const float* a, const float* b, int64_t n,
                                 float* y) const {
  parallel.For(n, kGrainElements, [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    AddElements<V>(a + begin, b + begin, end - begin, y + begin);
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::Rope(Parallel& parallel, float* x, int64_t stride, int64_t heads,
                                  int64_t head_dim, absl::Span<const int32_t> positions,
                                  const float* cosine, const float* sine) const {
  const int64_t m = static_cast<int64_t>(positions.size());
  const int64_t half = head_dim / 2;
  parallel.For(m, GrainRows(heads * head_dim), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angles = positions[row] * half;
      for (int64_t head = 0; head < heads; ++head) {
        RotateHead<V>(x + row * stride + head * head_dim, half, cosine + angles, sine + angles);
      }
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::RopeBackward(Parallel& parallel, float* dx, int64_t stride,
                                          int64_t heads, int64_t head_dim,
                                          absl::Span<const int32_t> positions, const float* cosine,
                                          const float* sine) const {
  const int64_t m = static_cast<int64_t>(positions.size());
  const int64_t half = head_dim / 2;
  parallel.For(m, GrainRows(heads * head_dim), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angles = positions[row] * half;
      for (int64_t head = 0; head < heads; ++head) {
        RotateHeadBack<V>(dx + row * stride + head * head_dim, half, cosine + angles,
                          sine + angles);
      }
    }
  });
}

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

template <class V, class Element>
void CpuKernels<V, Element>::SiluMul(Parallel& parallel, const float* gate_up, int64_t m, int64_t f,
                                     float* y) const {
  parallel.For(m, GrainRows(f), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up + row * 2 * f;
      SiluMulRow<V>(gate, gate + f, f, y + row * f);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::SiluMulBackward(Parallel& parallel, const float* gate_up,
                                             const float* dy, int64_t m, int64_t f,
                                             float* dgate_up) const {
  parallel.For(m, GrainRows(f), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up + row * 2 * f;
      float* dgate = dgate_up + row * 2 * f;
      SiluMulBackwardRow<V>(gate, gate + f, dy + row * f, f, dgate, dgate + f);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::LogProb(Parallel& parallel, const float* logits, int64_t m, int64_t v,
                                     const float* temperature, const int32_t* target,
                                     float* log_sum_exp, float* log_prob, float* entropy) const {
  parallel.For(m, GrainRows(v), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    LogProbRows<V> rows(v);
    for (int64_t row = begin; row < end; ++row) {
      rows.Run(logits + row * v, temperature[row], target[row], log_sum_exp + row, log_prob + row,
               entropy == nullptr ? nullptr : entropy + row);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::LogProbBackward(Parallel& parallel, float* logits, int64_t m,
                                             int64_t v, const float* temperature,
                                             const int32_t* target, const float* log_sum_exp,
                                             const float* coefficient) const {
  parallel.For(m, GrainRows(v), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      LogProbBackwardRow<V>(logits + row * v, v, temperature[row], target[row], log_sum_exp[row],
                            coefficient[row]);
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::Probabilities(const float* logits, int64_t v, float temperature,
                                           float log_sum_exp, float* p) const {
  FpEnvironment environment;
  ProbabilitiesRow<V>(logits, v, temperature, log_sum_exp, p);
}

template <class V, class Element>
double CpuKernels<V, Element>::SumOfSquares(Parallel& parallel, const float* g, int64_t n) const {
  const int64_t leaves = (n + kGradientLeaf - 1) / kGradientLeaf;
  Scratch<V> scratch(leaves);
  float* sums = scratch.Take(leaves);
  parallel.For(leaves, GrainRows(kGradientLeaf), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t leaf = begin; leaf < end; ++leaf) {
      const float* from = g + leaf * kGradientLeaf;
      sums[leaf] = RowDot<V>(from, from, std::min(kGradientLeaf, n - leaf * kGradientLeaf));
    }
  });
  FpEnvironment environment;
  double sum = 0.0;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) sum += static_cast<double>(sums[leaf]);
  return sum;
}

template <class V, class Element>
void CpuKernels<V, Element>::AdamW(Parallel& parallel, const AdamWScalars& scalars, int64_t n,
                                   const float* gradient, float* master, float* moment1,
                                   float* moment2) const {
  parallel.For(n, kGrainElements, [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    AdamWElements<V>(scalars, end - begin, gradient + begin, master + begin, moment1 + begin,
                     moment2 + begin);
  });
}

template <class V, class Element>
Digest128 CpuKernels<V, Element>::Digest(Parallel& parallel, const float* x, int64_t n,
                                         uint64_t first_index) const {
  return DigestElements(parallel, x, n, first_index);
}

template <class V, class Element>
void CpuKernels<V, Element>::Exp(const float* x, int64_t n, float* y) const {
  FpEnvironment environment;
  ExpElements<V>(x, n, y);
}

template <class V, class Element>
void CpuKernels<V, Element>::Log(const float* x, int64_t n, float* y) const {
  FpEnvironment environment;
  LogElements<V>(x, n, y);
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_CPU_KERNELS_INL_H_
