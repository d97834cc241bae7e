#ifndef LOCKSTEP_KERNELS_POLYNOMIALS_H_
#define LOCKSTEP_KERNELS_POLYNOMIALS_H_

#include <cstdint>

namespace lockstep::kernels {

// The constants of our fp32 exp and log, shared by every backend so that they cannot drift apart.
// docs/numerics.md, "exp and log", gives the sequence of operations that they enter.
//
// Polynomials are minimax fits (Remez exchange in 60 digits, then each coefficient rounded to
// float), weighted to minimise the relative error of the function, lowest power first.

// exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n * ln 2 in [-ln2 / 2, ln2 / 2],
// exp(r) = 1 + (r + r^2 * Q(r)). Relative error of the fit: 2^-28.3.
struct ExpConstants {
  // Beyond these the result is +0 or +inf anyway; inside, |n| <= 150 and both halves of n are
  // exponents of normal floats.
  static constexpr float kLowest = -104.0f;
  static constexpr float kHighest = 104.0f;
  static constexpr float kLog2E = 0x1.715476p+0f;
  // Adding 1.5 * 2^23 rounds to an integer, which then lies in the low bits of the sum.
  static constexpr float kRound = 0x1.8p+23f;
  static constexpr uint32_t kRoundBits = 0x4b400000;
  // ln 2 in two parts; the first has 15 bits, so n times it is exact.
  static constexpr float kLn2High = 0x1.62e4p-1f;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr int kDegree = 4;
  static constexpr float kQ[kDegree + 1] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f,
                                            0x1.123a2p-7f, 0x1.6a23dp-10f};
};

// log(x) = e * ln 2 + log(1 + f), x = 2^e * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)),
// log(1 + f) = f - f^2 / 2 + f^3 * P(f). Relative error of the fit: 2^-30.3.
struct LogConstants {
  // The bits of the float next to sqrt(1/2), where the range of 1 + f begins.
  static constexpr uint32_t kSqrtHalfBits = 0x3f3504f3;
  static constexpr uint32_t kMantissaMask = 0x007fffff;
  static constexpr float kLn2High = ExpConstants::kLn2High;
  static constexpr float kLn2Low = ExpConstants::kLn2Low;
  static constexpr int kDegree = 8;
  static constexpr float kP[kDegree + 1] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,
                                            -0x1.555c4ep-3f, 0x1.233766p-3f,  -0x1.fc22p-4f,
                                            0x1.e6f078p-4f,  -0x1.de3c48p-4f, 0x1.1457c8p-4f};
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_POLYNOMIALS_H_
