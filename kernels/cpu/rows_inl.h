#ifndef LOCKSTEP_KERNELS_CPU_ROWS_INL_H_
#define LOCKSTEP_KERNELS_CPU_ROWS_INL_H_

// Bodies of CpuKernels: norms, RoPE, and what works element by element.

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/grain.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/token_columns.h"
#include "kernels/fp_environment.h"

namespace lockstep::kernels::cpu {

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

// Calls rotate(head, angles) for every head of every row of x[m, heads, head_dim], and where the
// angles of the row's position begin.
template <class V, class Rotate>
void ForEachHead(Parallel& parallel, float* x, int64_t stride, int64_t heads, int64_t head_dim,
                 absl::Span<const int32_t> positions, Rotate rotate) {
  const int64_t m = static_cast<int64_t>(positions.size());
  parallel.For(m, GrainRows(heads * head_dim), [&](int64_t begin, int64_t end) {
    FpEnvironment environment;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angles = positions[row] * (head_dim / 2);
      for (int64_t head = 0; head < heads; ++head) {
        rotate(x + row * stride + head * head_dim, angles);
      }
    }
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::Rope(Parallel& parallel, float* x, int64_t stride, int64_t heads,
                                  int64_t head_dim, absl::Span<const int32_t> positions,
                                  const float* cosine, const float* sine) const {
  ForEachHead<V>(parallel, x, stride, heads, head_dim, positions, [=](float* head, int64_t angles) {
    RotateHead<V>(head, head_dim / 2, cosine + angles, sine + angles);
  });
}

template <class V, class Element>
void CpuKernels<V, Element>::RopeBackward(Parallel& parallel, float* dx, int64_t stride,
                                          int64_t heads, int64_t head_dim,
                                          absl::Span<const int32_t> positions, const float* cosine,
                                          const float* sine) const {
  ForEachHead<V>(parallel, dx, stride, heads, head_dim, positions,
                 [=](float* head, int64_t angles) {
                   RotateHeadBack<V>(head, head_dim / 2, cosine + angles, sine + angles);
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

#endif  // LOCKSTEP_KERNELS_CPU_ROWS_INL_H_
