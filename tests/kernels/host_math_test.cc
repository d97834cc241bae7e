// Goal: the double functions of the host are accurate, and the rotary tables have the rounding
// points of Hugging Face.
// Method: the C library's long double functions (64-bit mantissa) as oracle; tables recomputed.

#include "kernels/host_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::kernels::host {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kSamples = 200'000;

class Uniform {
 public:
  double operator()(double low, double high) {
    return low + (high - low) * (static_cast<double>(generator_() >> 11) * 0x1p-53);
  }

 private:
  std::mt19937_64 generator_{1};
};

double Ulps(double got, long double exact) {
  int exponent = 0;
  std::frexp(static_cast<double>(exact), &exponent);
  return static_cast<double>(std::abs(got - exact)) / std::ldexp(1.0, exponent - 53);
}

TEST(HostMath, ExpIsWithinTwoUnitsInTheLastPlace) {
  Uniform uniform;
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = i % 2 == 0 ? uniform(-700, 700) : uniform(-1, 1);
    worst = std::max(worst, Ulps(Exp(x), std::exp(static_cast<long double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_GT(Ulps(Exp(1.0), std::exp(1.0L + 1e-15L)), 2.0) << "negative control";
  EXPECT_EQ(Exp(0.0), 1.0);
  EXPECT_EQ(Exp(-1000.0), 0.0);
  EXPECT_EQ(Exp(-kInf), 0.0);
  EXPECT_EQ(Exp(710.0), kInf);
  EXPECT_TRUE(std::isnan(Exp(std::nan(""))));
}

TEST(HostMath, LogIsWithinTwoUnitsInTheLastPlace) {
  Uniform uniform;
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = i % 2 == 0 ? Exp(uniform(-700, 700)) : uniform(0.5, 2);
    worst = std::max(worst, Ulps(Log(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(std::bit_cast<uint64_t>(Log(1.0)), 0u);
  EXPECT_EQ(Log(0.0), -kInf);
  EXPECT_EQ(Log(kInf), kInf);
  EXPECT_TRUE(std::isnan(Log(-1.0)));
}

TEST(HostMath, SinAndCosAreWithinTwoUnitsInTheLastPlace) {
  Uniform uniform;
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double range = i % 2 == 0 ? 0x1p21 : 4.0;
    const double x = uniform(-range, range);
    worst = std::max(worst, Ulps(Sin(x), std::sin(static_cast<long double>(x))));
    worst = std::max(worst, Ulps(Cos(x), std::cos(static_cast<long double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(Sin(0.0), 0.0);
  EXPECT_EQ(Cos(0.0), 1.0);
}

TEST(HostMath, PowKeepsItsBound) {
  Uniform uniform;
  for (int i = 0; i < kSamples; ++i) {
    const bool fractional = i % 2 == 0;
    const double x = fractional ? uniform(100, 1e6) : uniform(0.8, 0.9999);
    const double y = fractional ? uniform(0, 1) : std::floor(uniform(1, 2000));
    ASSERT_LE(Ulps(Pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y))),
              2.0 + y / 16)
        << x << "^" << y;
  }
  EXPECT_EQ(Pow(0.9, 0.0), 1.0);
  EXPECT_EQ(Pow(0.0, 3.0), 0.0);
  EXPECT_EQ(Pow(0.9, 1.0), 0.9);
  EXPECT_EQ(Pow(2.0, 10.0), 1024.0);
}

TEST(RopeTables, RoundWhereHuggingFaceRounds) {
  constexpr int64_t kPositions = 300, kHeadDim = 10;
  const RopeTables tables = MakeRopeTables(kPositions, kHeadDim, 10000.0);
  ASSERT_EQ(tables.cosine.size(), static_cast<size_t>(kPositions * kHeadDim / 2));
  ASSERT_EQ(tables.sine.size(), tables.cosine.size());
  bool unrounded_differs = false;
  for (int64_t i = 0; i < kHeadDim / 2; ++i) {
    const float exponent = 2.0f * static_cast<float>(i) / static_cast<float>(kHeadDim);
    const float frequency = 1.0f / static_cast<float>(std::pow(10000.0L, exponent));
    for (int64_t position = 0; position < kPositions; ++position) {
      const float angle = static_cast<float>(position) * frequency;
      const size_t entry = position * kHeadDim / 2 + i;
      // The tables come from a double that is at most 2 units off, so a float may be one off in
      // rare ties only; these arguments hold none.
      EXPECT_EQ(tables.cosine[entry],
                static_cast<float>(std::cos(static_cast<long double>(angle))));
      EXPECT_EQ(tables.sine[entry], static_cast<float>(std::sin(static_cast<long double>(angle))));
      const double unrounded = static_cast<double>(position) / std::pow(10000.0, 0.2 * i);
      unrounded_differs |= tables.sine[entry] != static_cast<float>(std::sin(unrounded));
    }
  }
  EXPECT_TRUE(unrounded_differs) << "negative control: the rounding of the angle is visible";
}

}  // namespace
}  // namespace lockstep::kernels::host
