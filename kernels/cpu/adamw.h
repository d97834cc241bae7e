#ifndef LOCKSTEP_KERNELS_CPU_ADAMW_H_
#define LOCKSTEP_KERNELS_CPU_ADAMW_H_

#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// AdamW (Loshchilov and Hutter 2019) on n elements, in place.
template <class V>
void AdamWElements(const AdamWScalars& scalars, int64_t n, const float* gradient, float* master,
                   float* moment1, float* moment2) {
  const V gradient_scale = V::Broadcast(scalars.gradient_scale);
  const V beta1 = V::Broadcast(scalars.beta1);
  const V beta2 = V::Broadcast(scalars.beta2);
  const V one_minus_beta1 = V::Broadcast(scalars.one_minus_beta1);
  const V one_minus_beta2 = V::Broadcast(scalars.one_minus_beta2);
  const V inverse_correction1 = V::Broadcast(scalars.inverse_correction1);
  const V inverse_correction2 = V::Broadcast(scalars.inverse_correction2);
  const V epsilon = V::Broadcast(scalars.epsilon);
  const V minus_decay = V::Broadcast(-scalars.decay);
  const V minus_learning_rate = V::Broadcast(-scalars.learning_rate);
  ForEachVector<V>(n, [&](int64_t i, auto lanes) {
    const V g = lanes.Load(gradient + i) * gradient_scale;
    const V m = Finish(Fma(beta1, lanes.Load(moment1 + i), one_minus_beta1 * g));
    const V v = Finish(Fma(beta2, lanes.Load(moment2 + i), (one_minus_beta2 * g) * g));
    const V m_hat = m * inverse_correction1;
    const V v_hat = v * inverse_correction2;
    const V update = m_hat / (Sqrt(v_hat) + epsilon);
    const V weight = lanes.Load(master + i);
    const V decayed = Fma(minus_decay, weight, weight);
    lanes.Store(Finish(Fma(minus_learning_rate, update, decayed)), master + i);
    lanes.Store(m, moment1 + i);
    lanes.Store(v, moment2 + i);
  });
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ADAMW_H_
