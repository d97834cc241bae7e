#ifndef LOCKSTEP_KERNELS_HOST_MATH_H_
#define LOCKSTEP_KERNELS_HOST_MATH_H_

#include <cstdint>
#include <functional>
#include <vector>

// Double-precision functions for scalars that the host computes once and ships to every stage:
// learning-rate schedules, beta^t, rotary tables. Only IEEE operations and std::fma, no libm, so
// every machine gets the same bits. Errors are below 2 units in the last place over the stated
// ranges (tests/kernels/host_math_test.cc).
//
// REQUIRES, of all: the default floating-point environment (round to nearest, no flushing).
// Thread safety: pure functions.
namespace lockstep::kernels::host {

// e^x. +inf above 709.78, 0 below -708, NaN of NaN.
double Exp(double x);

// Natural logarithm. -inf of 0, NaN of NaN and below 0. REQUIRES: x is not denormal.
double Log(double x);

// x^y for x >= 0; x^0 = 1. The error is below 2 + |y| / 16 units in the last place.
double Pow(double x, double y);

// REQUIRES: |x| <= 2^21.
double Sin(double x);
double Cos(double x);

// Cosines and sines of the rotary embedding, each [positions, head_dim / 2] in fp32.
struct RopeTables {
  std::vector<float> cosine;
  std::vector<float> sine;
};

// The tables of Hugging Face's default RoPE, with its rounding points: frequency i is
// 1 / theta^(2i / head_dim), where the exponent, the power and the quotient are rounded to float;
// the angle is the float product position * frequency; only its cosine and sine are ours, computed
// in double and rounded once.
//
// `stretch` may change a frequency before it is used: the scaled kinds of RoPE.
using StretchFrequency = std::function<float(float)>;
RopeTables MakeRopeTables(int64_t positions, int64_t head_dim, double theta,
                          const StretchFrequency& stretch = nullptr);

}  // namespace lockstep::kernels::host

#endif  // LOCKSTEP_KERNELS_HOST_MATH_H_
