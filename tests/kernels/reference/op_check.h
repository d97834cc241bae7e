#ifndef LOCKSTEP_TESTS_KERNELS_REFERENCE_OP_CHECK_H_
#define LOCKSTEP_TESTS_KERNELS_REFERENCE_OP_CHECK_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/reference/running_error.h"

namespace lockstep::kernels {

// `count` floats uniform in [-scale, scale], the same on every machine.
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = scale * (static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f);
  }
  return values;
}

inline uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }

inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(Bits(value));
  return bits;
}

// The largest |got - expected| / bound; infinite if something is not finite.
inline double WorstRatio(const std::vector<float>& got, const std::vector<RunningError>& expected) {
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double ratio = std::abs(got[i] - expected[i].value()) / expected[i].error();
    worst = ratio <= worst ? worst : ratio;  // NaN is taken
  }
  return std::isnan(worst) ? std::numeric_limits<double>::infinity() : worst;
}

// `got` lies within the computed bounds, and the bounds are tight enough to notice one rounding to
// bf16 precision (the negative control).
inline void ExpectWithinBounds(const std::vector<float>& got,
                               const std::vector<RunningError>& expected, std::string_view what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  EXPECT_LE(WorstRatio(got, expected), 1.0) << what;
  std::vector<float> rounded = got;
  for (float& value : rounded) value *= 1 + 0x1p-9f;
  EXPECT_GT(WorstRatio(rounded, expected), 1.0) << what << ": the bound notices nothing";
}

// Gradient of a real function by complex step: exact to double precision, no cancellation.
// `function` takes std::vector<std::complex<double>> and returns std::complex<double>.
template <typename Function>
std::vector<double> ComplexStepGradient(const std::vector<float>& x, Function function) {
  constexpr double kStep = 1e-30;
  std::vector<std::complex<double>> point(x.begin(), x.end());
  std::vector<double> gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    point[i] = {x[i], kStep};
    gradient[i] = function(point).imag() / kStep;
    point[i] = x[i];
  }
  return gradient;
}

// The loss whose gradient by y is dy.
inline std::complex<double> WeightedSum(const std::vector<std::complex<double>>& y,
                                        const std::vector<float>& dy) {
  std::complex<double> sum = 0;
  for (size_t i = 0; i < dy.size(); ++i) sum += y[i] * static_cast<double>(dy[i]);
  return sum;
}

// The oracle's own backward formula (whose bounds are used) agrees with the derivative of the
// oracle's forward.
inline void ExpectSameGradient(const std::vector<double>& complex_step,
                               const std::vector<RunningError>& formula, std::string_view what) {
  ASSERT_EQ(complex_step.size(), formula.size()) << what;
  double norm = 0;
  for (const double value : complex_step) norm = std::max(norm, std::abs(value));
  ASSERT_GT(norm, 0) << what;
  for (size_t i = 0; i < formula.size(); ++i) {
    EXPECT_NEAR(complex_step[i], formula[i].value(), 1e-12 * norm) << what << " element " << i;
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_REFERENCE_OP_CHECK_H_
