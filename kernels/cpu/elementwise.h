#ifndef LOCKSTEP_KERNELS_CPU_ELEMENTWISE_H_
#define LOCKSTEP_KERNELS_CPU_ELEMENTWISE_H_

#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"

namespace lockstep::kernels::cpu {

// Operations whose outputs depend on one element, or one pair, each.

// y[n](=) = a + b. y may be a or b.
template <class V>
void AddElements(const float* a, const float* b, int64_t n, float* y) {
  ForEachVector<V>(n, [&](int64_t i, auto lanes) {
    lanes.Store(Finish(lanes.Load(a + i) + lanes.Load(b + i)), y + i);
  });
}

template <class V>
void ExpElements(const float* x, int64_t n, float* y) {
  ForEachVector<V>(n, [&](int64_t i, auto lanes) { lanes.Store(Exp(lanes.Load(x + i)), y + i); });
}

template <class V>
void LogElements(const float* x, int64_t n, float* y) {
  ForEachVector<V>(n, [&](int64_t i, auto lanes) { lanes.Store(Log(lanes.Load(x + i)), y + i); });
}

// silu(g) = g / (1 + exp(-g)). One row: y[f](=) = silu(gate) * up.
template <class V>
void SiluMulRow(const float* gate, const float* up, int64_t f, float* y) {
  const V one = V::Broadcast(1.0f);
  ForEachVector<V>(f, [&](int64_t i, auto lanes) {
    const V g = lanes.Load(gate + i);
    const V silu = g / (one + Exp(-g));
    lanes.Store(Finish(silu * lanes.Load(up + i)), y + i);
  });
}

// One row: dgate[f](=) = (dy * up) * s * (1 + g * (1 - s)), s = 1 / (1 + exp(-g)); dup[f](=) = dy *
// silu(g).
template <class V>
void SiluMulBackwardRow(const float* gate, const float* up, const float* dy, int64_t f,
                        float* dgate, float* dup) {
  const V one = V::Broadcast(1.0f);
  ForEachVector<V>(f, [&](int64_t i, auto lanes) {
    const V g = lanes.Load(gate + i);
    const V d = lanes.Load(dy + i);
    const V denominator = one + Exp(-g);
    const V silu = g / denominator;
    const V sigmoid = one / denominator;
    const V slope = sigmoid * Fma(g, one - sigmoid, one);
    lanes.Store(Finish((d * lanes.Load(up + i)) * slope), dgate + i);
    lanes.Store(Finish(d * silu), dup + i);
  });
}

// One head: pairs (i, i + half) turned by the angles of one position, in place. The second product
// is rounded, the first is fused into the sum.
template <class V>
void RotateHead(float* x, int64_t half, const float* cosine, const float* sine) {
  ForEachVector<V>(half, [&](int64_t i, auto lanes) {
    const V a = lanes.Load(x + i);
    const V b = lanes.Load(x + half + i);
    const V c = lanes.Load(cosine + i);
    const V s = lanes.Load(sine + i);
    lanes.Store(Finish(Fma(a, c, -(b * s))), x + i);
    lanes.Store(Finish(Fma(b, c, a * s)), x + half + i);
  });
}

// The transposed rotation.
template <class V>
void RotateHeadBack(float* dx, int64_t half, const float* cosine, const float* sine) {
  ForEachVector<V>(half, [&](int64_t i, auto lanes) {
    const V a = lanes.Load(dx + i);
    const V b = lanes.Load(dx + half + i);
    const V c = lanes.Load(cosine + i);
    const V s = lanes.Load(sine + i);
    lanes.Store(Finish(Fma(a, c, b * s)), dx + i);
    lanes.Store(Finish(Fma(b, c, -(a * s))), dx + half + i);
  });
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ELEMENTWISE_H_
