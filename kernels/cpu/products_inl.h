#ifndef LOCKSTEP_KERNELS_CPU_PRODUCTS_INL_H_
#define LOCKSTEP_KERNELS_CPU_PRODUCTS_INL_H_

// Bodies of CpuKernels: matrix products and the embedding.

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/grain.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_backward_weight.h"
#include "kernels/cpu/scratch.h"
#include "kernels/fp_environment.h"

namespace lockstep::kernels::cpu {

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

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_PRODUCTS_INL_H_
