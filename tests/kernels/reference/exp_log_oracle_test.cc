// Goal: our exp and log keep their promise of 2 units in the last place and their defined extremes.
// Method: floats spread over the whole range against the double functions of the C library.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallestNormal = 0x1p-126f;

float ExpOf(float x) {
  float y = 0;
  CreateReferenceKernels()->Exp(&x, 1, &y);
  return y;
}

float LogOf(float x) {
  float y = 0;
  CreateReferenceKernels()->Log(&x, 1, &y);
  return y;
}

// The largest error in units in the last place of the exact result.
template <typename Exact>
double WorstUlps(const std::vector<float>& x, const std::vector<float>& y, Exact exact) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = exact(static_cast<double>(x[i]));
    int exponent = 0;
    std::frexp(expected, &exponent);
    const double error = std::abs(y[i] - expected) / std::ldexp(1.0, exponent - 24);
    worst = error <= worst ? worst : error;
  }
  return worst;
}

// Every 997th float whose bits lie in [first, last].
std::vector<float> FloatsBetween(float first, float last) {
  std::vector<float> values;
  for (uint32_t bits = Bits(first); bits < Bits(last); bits += 997) {
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

TEST(Exp, IsWithinTwoUnitsInTheLastPlace) {
  std::vector<float> x = FloatsBetween(1e-9f, 88.72f);
  const std::vector<float> negative = FloatsBetween(-1e-9f, -87.33f);
  x.insert(x.end(), negative.begin(), negative.end());
  std::vector<float> y(x.size());
  CreateReferenceKernels()->Exp(x.data(), x.size(), y.data());
  EXPECT_LE(WorstUlps(x, y, [](double v) { return std::exp(v); }), 2.0);
  // Negative control: the exponential of a slightly different argument is noticed.
  EXPECT_GT(WorstUlps(x, y, [](double v) { return std::exp(v + 0x1p-20); }), 2.0);
}

TEST(Log, IsWithinTwoUnitsInTheLastPlace) {
  const std::vector<float> x = FloatsBetween(kSmallestNormal, 3.4e38f);
  std::vector<float> y(x.size());
  CreateReferenceKernels()->Log(x.data(), x.size(), y.data());
  EXPECT_LE(WorstUlps(x, y, [](double v) { return std::log(v); }), 2.0);
  EXPECT_GT(WorstUlps(x, y, [](double v) { return std::log(v * (1 + 0x1p-20)); }), 2.0);
}

TEST(Exp, HasDefinedExtremes) {
  EXPECT_EQ(Bits(ExpOf(0.0f)), Bits(1.0f));
  EXPECT_EQ(Bits(ExpOf(-0.0f)), Bits(1.0f));
  EXPECT_EQ(Bits(ExpOf(0x1p-140f)), Bits(1.0f));
  EXPECT_EQ(Bits(ExpOf(-kInf)), Bits(0.0f));
  EXPECT_EQ(Bits(ExpOf(-1e30f)), Bits(0.0f));
  EXPECT_EQ(Bits(ExpOf(-87.3366f)), Bits(0.0f)) << "below the smallest normal number";
  EXPECT_GE(ExpOf(-87.3365f), kSmallestNormal);
  EXPECT_EQ(ExpOf(kInf), kInf);
  EXPECT_EQ(ExpOf(1e30f), kInf);
  EXPECT_EQ(ExpOf(88.7229f), kInf);
  EXPECT_LT(ExpOf(88.7228f), kInf);
  EXPECT_EQ(Bits(ExpOf(kNaN)), 0x7fc00000u);
  EXPECT_EQ(Bits(ExpOf(std::bit_cast<float>(0xffc12345u))), 0x7fc00000u);
}

TEST(Log, HasDefinedExtremes) {
  EXPECT_EQ(Bits(LogOf(1.0f)), Bits(0.0f));
  EXPECT_EQ(LogOf(0.0f), -kInf);
  EXPECT_EQ(LogOf(-0.0f), -kInf);
  EXPECT_EQ(LogOf(0x1p-140f), -kInf) << "denormals are zero";
  EXPECT_EQ(LogOf(-0x1p-140f), -kInf);
  EXPECT_EQ(LogOf(kInf), kInf);
  EXPECT_EQ(Bits(LogOf(-1.0f)), 0x7fc00000u);
  EXPECT_EQ(Bits(LogOf(-kInf)), 0x7fc00000u);
  EXPECT_EQ(Bits(LogOf(std::bit_cast<float>(0xffc12345u))), 0x7fc00000u);
}

}  // namespace
}  // namespace lockstep::kernels
