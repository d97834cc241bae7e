#include "kernels/host_math.h"

#include <bit>
#include <cmath>
#include <limits>

namespace lockstep::kernels::host {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Adding 1.5 * 2^52 leaves the nearest integer in the low bits of the sum.
constexpr double kRound = 0x1.8p52;
constexpr uint64_t kRoundBits = std::bit_cast<uint64_t>(kRound);

constexpr double kLog2E = 0x1.71547652b82fep+0;
// ln 2 in two parts; the first has 32 bits, so any exponent times it is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// Minimax fits (Remez exchange in 50 digits, rounded to double), lowest power first; comments give
// the relative error of the function they serve.

// exp(r) = 1 + r + r^2 * Q(r), |r| <= ln2 / 2: 2^-57.9.
constexpr double kExpQ[] = {0x1.000000000000ap-1,  0x1.55555555554fap-3,  0x1.555555555087cp-5,
                            0x1.1111111127be7p-7,  0x1.6c16c1842a146p-10, 0x1.a01a012a56eaep-13,
                            0x1.a0199a0c6051fp-16, 0x1.71df255414fb1p-19, 0x1.28ad72d2ab832p-22,
                            0x1.ad7f6bf64127dp-26};
// log(1 + f) = 2s + s^3 * R(s^2), s = f / (2 + f), 1 + f in [sqrt(1/2), sqrt(2)): 2^-59.5.
constexpr double kLogR[] = {0x1.5555555555592p-1, 0x1.999999997fd77p-2, 0x1.24924941f4fb5p-2,
                            0x1.c71c52060803ep-3, 0x1.74663fa2250b8p-3, 0x1.39a1a6f733f89p-3,
                            0x1.2f0634870fe1dp-3};
// sin(r) = r + r^3 * S(r^2), |r| <= pi / 4: 2^-58.0.
constexpr double kSinS[] = {-0x1.5555555555549p-3, 0x1.111111110f87ap-7,  -0x1.a01a019c11991p-13,
                            0x1.71de3577b6618p-19, -0x1.ae5e663a64bcp-26, 0x1.5d9300eff728fp-33};
// cos(r) = 1 - r^2 / 2 + r^4 * C(r^2), |r| <= pi / 4: 2^-64.2.
constexpr double kCosC[] = {0x1.555555555554cp-5,   -0x1.6c16c16c1517ep-10, 0x1.a01a019cb1bd7p-16,
                            -0x1.27e4f809f0732p-22, 0x1.1ee9ebe90ed7cp-29,  -0x1.8fae9c6732875p-37};

template <size_t N>
double Polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

// 2^n for n in [-1022, 1023].
double PowerOfTwo(int64_t n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// An unevaluated sum, |low| at most half a unit in the last place of high.
struct DoubleDouble {
  double high;
  double low;
};

// REQUIRES: x positive, finite and normal.
DoubleDouble LogParts(double x) {
  constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  const uint64_t offset = std::bit_cast<uint64_t>(x) - kSqrtHalfBits;
  const double e = static_cast<double>(static_cast<int64_t>(offset) >> 52);
  const double f = std::bit_cast<double>((offset & 0x000fffffffffffff) + kSqrtHalfBits) - 1.0;
  // 2s + s * z * R(z) = f - s * (f - z * R(z)), which keeps f exact.
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double correction = s * (f - z * Polynomial(kLogR, z));
  const double scale = e * kLn2High;
  const double sum = scale + f;
  const double sum_error = f - (sum - scale);  // exact: |scale| > |f| or scale is 0
  const double tail = sum_error + std::fma(e, kLn2Low, -correction);
  const double high = sum + tail;
  return {.high = high, .low = tail - (high - sum)};
}

// x - quadrant * pi / 2 in [-pi/4, pi/4], to the last bit of a double for |x| <= 2^21.
struct Reduced {
  double r;
  int64_t quadrant;
};

Reduced ReduceAngle(double x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  // pi / 2 as a sum of three doubles. The first product's difference is exact.
  constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                -0x1.f1976b7ed8fbcp-110};
  const double shifted = std::fma(x, kTwoOverPi, kRound);
  const double n = shifted - kRound;
  double r = x;
  for (const double part : kHalfPi) r = std::fma(-n, part, r);
  return {.r = r, .quadrant = static_cast<int64_t>(std::bit_cast<uint64_t>(shifted) - kRoundBits)};
}

double SinReduced(double r) {
  const double z = r * r;
  return std::fma(r * z, Polynomial(kSinS, z), r);
}

double CosReduced(double r) {
  const double z = r * r;
  return std::fma(z * z, Polynomial(kCosC, z), std::fma(-0.5, z, 1.0));
}

struct SinCos {
  double sin = 0;
  double cos = 1;
};

// Both at once: one reduction, and no branch on the quadrant, which is as good as random.
SinCos SinAndCos(double x) {
  const Reduced reduced = ReduceAngle(x);
  const double sin = SinReduced(reduced.r);
  const double cos = CosReduced(reduced.r);
  const bool odd = (reduced.quadrant & 1) != 0;
  const double sin_sign = (reduced.quadrant & 2) != 0 ? -1.0 : 1.0;
  const double cos_sign = ((reduced.quadrant + 1) & 2) != 0 ? -1.0 : 1.0;
  return {.sin = sin_sign * (odd ? cos : sin), .cos = cos_sign * (odd ? sin : cos)};
}

}  // namespace

double Exp(double x) {
  if (x != x) return kNaN;
  if (x > 709.782712893384) return kInfinity;
  if (x < -708.0) return 0.0;
  const double shifted = std::fma(x, kLog2E, kRound);
  const double n = shifted - kRound;
  const double r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  const double y = 1.0 + std::fma(r * r, Polynomial(kExpQ, r), r);
  const int64_t exponent = static_cast<int64_t>(std::bit_cast<uint64_t>(shifted) - kRoundBits);
  const int64_t half = exponent >> 1;
  return y * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

double Log(double x) {
  if (x == 0.0) return -kInfinity;
  if (!(x > 0.0)) return kNaN;
  if (x == kInfinity) return kInfinity;
  return LogParts(x).high;
}

double Pow(double x, double y) {
  if (y == 0.0) return 1.0;
  if (x == 0.0) return y > 0.0 ? 0.0 : kInfinity;
  if (!(x > 0.0) || x == kInfinity) return kNaN;
  const DoubleDouble log = LogParts(x);
  const double product = y * log.high;
  const double error = std::fma(y, log.high, -product) + y * log.low;
  const double power = Exp(product);
  if (power == kInfinity) return power;  // error may be infinite or NaN
  return std::fma(power, error, power);
}

double Sin(double x) { return SinAndCos(x).sin; }

double Cos(double x) { return SinAndCos(x).cos; }

RopeTables MakeRopeTables(int64_t positions, int64_t head_dim, double theta,
                          const StretchFrequency& stretch) {
  const int64_t half = head_dim / 2;
  std::vector<float> frequencies(half);
  for (int64_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    frequencies[i] = 1.0f / static_cast<float>(Pow(theta, exponent));
    if (stretch != nullptr) frequencies[i] = stretch(frequencies[i]);
  }
  RopeTables tables;
  tables.cosine.reserve(positions * half);
  tables.sine.reserve(positions * half);
  for (int64_t position = 0; position < positions; ++position) {
    for (const float frequency : frequencies) {
      const SinCos of_angle = SinAndCos(static_cast<float>(position) * frequency);
      tables.cosine.push_back(static_cast<float>(of_angle.cos));
      tables.sine.push_back(static_cast<float>(of_angle.sin));
    }
  }
  return tables;
}

}  // namespace lockstep::kernels::host
