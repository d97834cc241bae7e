#ifndef LOCKSTEP_KERNELS_REFERENCE_SCALAR_H_
#define LOCKSTEP_KERNELS_REFERENCE_SCALAR_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/polynomials.h"

namespace lockstep::kernels::reference {

// Scalar functions of the specification. All of them run inside an FpEnvironment.

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline const float kCanonicalNaN = std::bit_cast<float>(uint32_t{0x7fc00000});

// What every value passes on its way out of an operation: -0 becomes +0, a denormal becomes +0,
// and every NaN becomes the one NaN.
inline float Finish(float x) {
  const float y = x + 0.0f;
  return y == y ? y : kCanonicalNaN;
}

// `a` unless b is greater. NaN in b never wins.
inline float Max(float a, float b) { return b > a ? b : a; }

// 2^n for n in [-126, 127].
inline float PowerOfTwo(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

inline float Exp(float x) {
  using C = ExpConstants;
  // Both selects let NaN pass; below it survives every operation.
  float c = x < C::kLowest ? C::kLowest : x;
  c = c > C::kHighest ? C::kHighest : c;
  const float shifted = std::fma(c, C::kLog2E, C::kRound);
  const float n = shifted - C::kRound;
  float r = std::fma(n, -C::kLn2High, c);
  r = std::fma(n, -C::kLn2Low, r);
  float q = C::kQ[C::kDegree];
  for (int i = C::kDegree - 1; i >= 0; --i) q = std::fma(q, r, C::kQ[i]);
  const float p = std::fma(r * r, q, r);
  const float y = 1.0f + p;
  // Two exact multiplications, because 2^n alone may be no normal float. Only the second can
  // underflow, to +0 under FTZ, or overflow.
  const int32_t exponent =
      x == x ? static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - C::kRoundBits) : 0;
  const int32_t half = exponent >> 1;
  const float scaled = y * PowerOfTwo(half) * PowerOfTwo(exponent - half);
  return x == x ? scaled : kCanonicalNaN;
}

inline float Log(float x) {
  using C = LogConstants;
  // Meaningless bits for x <= 0, inf and NaN; the selects at the end replace what comes of them.
  const uint32_t offset = std::bit_cast<uint32_t>(x) - C::kSqrtHalfBits;
  const float e = static_cast<float>(static_cast<int32_t>(offset) >> 23);
  const float f = std::bit_cast<float>((offset & C::kMantissaMask) + C::kSqrtHalfBits) - 1.0f;
  float p = C::kP[C::kDegree];
  for (int i = C::kDegree - 1; i >= 0; --i) p = std::fma(p, f, C::kP[i]);
  const float f2 = f * f;
  float y = (f * f2) * p;
  y = std::fma(e, C::kLn2Low, y);
  y = std::fma(-0.5f, f2, y);
  y = std::fma(e, C::kLn2High, f + y);
  y = x == kInfinity ? kInfinity : y;
  y = x == 0.0f ? -kInfinity : y;  // denormals compare equal to 0 under DAZ
  return x >= 0.0f ? y : kCanonicalNaN;
}

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_SCALAR_H_
