#ifndef LOCKSTEP_KERNELS_CPU_MATH_H_
#define LOCKSTEP_KERNELS_CPU_MATH_H_

#include <limits>

#include "kernels/polynomials.h"

namespace lockstep::kernels::cpu {

// Lane-wise functions. Each is the reference's sequence of IEEE operations, in the same order, with
// its conditionals as selects; run inside an FpEnvironment.

template <class V>
inline V CanonicalNan() {
  return FromBits(V::Int::Broadcast(0x7fc00000));
}

// What every value passes on its way out of an operation: no -0 (the sum with +0 is +0), no
// denormal, one NaN.
template <class V>
inline V Finish(V x) {
  const V sum = x + V::Zero();
  return Select(IsNan(sum), CanonicalNan<V>(), sum);
}

// `a` unless b is greater. NaN in b never wins.
template <class V>
inline V Max(V a, V b) {
  return Select(b > a, b, a);
}

template <class V>
inline float FirstLane(V x) {
  float lanes[V::kLanes];
  x.Store(lanes);
  return lanes[0];
}

// 2^n for n in [-126, 127].
template <class I>
inline auto PowerOfTwo(I n) {
  return FromBits(ShiftLeft<23>(n + I::Broadcast(127)));
}

template <class V>
inline V Exp(V x) {
  using C = ExpConstants;
  using I = typename V::Int;
  // Both selects let NaN pass.
  const V lowest = V::Broadcast(C::kLowest);
  const V highest = V::Broadcast(C::kHighest);
  V c = Select(x < lowest, lowest, x);
  c = Select(c > highest, highest, c);
  const V round = V::Broadcast(C::kRound);
  const V shifted = Fma(c, V::Broadcast(C::kLog2E), round);
  const V n = shifted - round;
  V r = Fma(n, V::Broadcast(-C::kLn2High), c);
  r = Fma(n, V::Broadcast(-C::kLn2Low), r);
  V q = V::Broadcast(C::kQ[C::kDegree]);
  for (int i = C::kDegree - 1; i >= 0; --i) q = Fma(q, r, V::Broadcast(C::kQ[i]));
  const V p = Fma(r * r, q, r);
  const V y = V::Broadcast(1.0f) + p;
  // Lanes with NaN compute some exponent or other; the last select replaces what comes of it.
  const I exponent = BitsOf(shifted) - I::Broadcast(static_cast<int32_t>(C::kRoundBits));
  const I half = ShiftRight<1>(exponent);
  const V scaled = y * PowerOfTwo(half) * PowerOfTwo(exponent - half);
  return Select(IsNan(x), CanonicalNan<V>(), scaled);
}

template <class V>
inline V Log(V x) {
  using C = LogConstants;
  using I = typename V::Int;
  const I sqrt_half = I::Broadcast(static_cast<int32_t>(C::kSqrtHalfBits));
  // Meaningless bits for x <= 0, inf and NaN; the selects at the end replace what comes of them.
  const I offset = BitsOf(x) - sqrt_half;
  const V e = ToFloat(ShiftRight<23>(offset));
  const I mantissa = offset & I::Broadcast(static_cast<int32_t>(C::kMantissaMask));
  const V f = FromBits(mantissa + sqrt_half) - V::Broadcast(1.0f);
  V p = V::Broadcast(C::kP[C::kDegree]);
  for (int i = C::kDegree - 1; i >= 0; --i) p = Fma(p, f, V::Broadcast(C::kP[i]));
  const V f2 = f * f;
  V y = (f * f2) * p;
  y = Fma(e, V::Broadcast(C::kLn2Low), y);
  y = Fma(V::Broadcast(-0.5f), f2, y);
  y = Fma(e, V::Broadcast(C::kLn2High), f + y);
  const V infinity = V::Broadcast(std::numeric_limits<float>::infinity());
  y = Select(x == infinity, infinity, y);
  y = Select(x == V::Zero(), -infinity, y);  // denormals compare equal to 0 under DAZ
  return Select(x >= V::Zero(), y, CanonicalNan<V>());
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_MATH_H_
