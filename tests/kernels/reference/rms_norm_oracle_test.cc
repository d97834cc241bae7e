// Goal: the reference RMSNorm is good, forward and backward.
// Method: double oracle with bounds from running error analysis; the backward formula against the
// complex-step derivative of the forward.

#include <algorithm>
#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/double_oracle.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

using Complex = std::complex<double>;
constexpr float kEpsilon = 1e-5f;

class RmsNormOracle : public testing::TestWithParam<int64_t> {
 protected:
  static constexpr int64_t kRows = 3;

  const int64_t h_ = GetParam();
  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels();
  Serial serial_;
  const std::vector<float> x_ = RandomFloats(kRows * h_, 1, 2.0f);
  const std::vector<float> weight_ = RandomFloats(h_, 2);
  const std::vector<float> dy_ = RandomFloats(kRows * h_, 3);
};

TEST_P(RmsNormOracle, ForwardIsWithinBounds) {
  std::vector<float> y(kRows * h_);
  std::vector<float> r(kRows);
  kernels_->RmsNorm(serial_, x_.data(), weight_.data(), kRows, h_, kEpsilon, y.data(), r.data());
  ExpectWithinBounds(y,
                     oracle::RmsNorm(oracle::To<RunningError>(x_),
                                     oracle::To<RunningError>(weight_), kRows, kEpsilon),
                     "y");
}

TEST_P(RmsNormOracle, BackwardIsWithinBounds) {
  std::vector<float> y(kRows * h_);
  std::vector<float> r(kRows);
  kernels_->RmsNorm(serial_, x_.data(), weight_.data(), kRows, h_, kEpsilon, y.data(), r.data());
  // dx, then dweight behind it, as the oracle has them.
  std::vector<float> gradients((kRows + 1) * h_, 0.0f);
  const std::vector<int64_t> datum_begins = {0, 1, kRows};
  kernels_->RmsNormBackward(serial_, x_.data(), weight_.data(), r.data(), dy_.data(), datum_begins,
                            h_, gradients.data(), gradients.data() + kRows * h_);
  ExpectWithinBounds(
      gradients,
      oracle::RmsNormBackward(oracle::To<RunningError>(x_), oracle::To<RunningError>(weight_),
                              oracle::To<RunningError>(dy_), kRows, kEpsilon, 2),
      "dx, dweight");
}

// Two heads of rows that hold three: the third stays as it is.
TEST_P(RmsNormOracle, HeadNormIsTheNormOfEveryHead) {
  constexpr int64_t kHeads = 2;
  const int64_t stride = 3 * h_;
  std::vector<float> x = RandomFloats(kRows * stride, 4, 2.0f);
  const std::vector<float> original = x;
  std::vector<float> before(kRows * kHeads * h_);
  std::vector<float> r(kRows * kHeads);
  kernels_->HeadNorm(serial_, x.data(), stride, weight_.data(), kRows, kHeads, h_, kEpsilon,
                     before.data(), r.data());
  const auto heads_of = [&](const std::vector<float>& rows) {
    std::vector<float> heads;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto begin = rows.begin() + row * stride;
      heads.insert(heads.end(), begin, begin + kHeads * h_);
      EXPECT_TRUE(std::equal(begin + kHeads * h_, begin + stride,
                             original.begin() + row * stride + kHeads * h_));
    }
    return heads;
  };
  EXPECT_EQ(before, heads_of(original));
  const auto exact_before = oracle::To<RunningError>(before);
  const auto exact_weight = oracle::To<RunningError>(weight_);
  ExpectWithinBounds(heads_of(x),
                     oracle::RmsNorm(exact_before, exact_weight, kRows * kHeads, kEpsilon), "y");

  std::vector<float> dx = original;
  std::vector<float> gradients(h_, 0.0f);
  const std::vector<int64_t> datum_begins = {0, 1, kRows};
  const auto exact_dy = oracle::To<RunningError>(heads_of(dx));
  kernels_->HeadNormBackward(serial_, before.data(), weight_.data(), r.data(), datum_begins, kHeads,
                             h_, dx.data(), stride, gradients.data());
  const std::vector<float> dx_heads = heads_of(dx);
  gradients.insert(gradients.begin(), dx_heads.begin(), dx_heads.end());
  ExpectWithinBounds(
      gradients,
      oracle::RmsNormBackward(exact_before, exact_weight, exact_dy, kRows * kHeads, kEpsilon, 2),
      "dx, dweight");
}

INSTANTIATE_TEST_SUITE_P(Widths, RmsNormOracle,
                         testing::Values(2, 7, 64, 65, 576, 1024, 1025, 2100),
                         [](const auto& info) { return absl::StrCat(info.param); });

TEST(RmsNormGradient, IsTheDerivativeOfTheForward) {
  constexpr int64_t kRows = 2, kWidth = 6;
  const std::vector<float> x = RandomFloats(kRows * kWidth, 1, 2.0f);
  const std::vector<float> weight = RandomFloats(kWidth, 2);
  const std::vector<float> dy = RandomFloats(kRows * kWidth, 3);
  std::vector<double> gradient = ComplexStepGradient(x, [&](const std::vector<Complex>& point) {
    return WeightedSum(oracle::RmsNorm(point, oracle::To<Complex>(weight), kRows, kEpsilon), dy);
  });
  const std::vector<double> by_weight =
      ComplexStepGradient(weight, [&](const std::vector<Complex>& point) {
        return WeightedSum(oracle::RmsNorm(oracle::To<Complex>(x), point, kRows, kEpsilon), dy);
      });
  gradient.insert(gradient.end(), by_weight.begin(), by_weight.end());
  ExpectSameGradient(
      gradient,
      oracle::RmsNormBackward(oracle::To<RunningError>(x), oracle::To<RunningError>(weight),
                              oracle::To<RunningError>(dy), kRows, kEpsilon, 1),
      "dx, dweight");
}

}  // namespace
}  // namespace lockstep::kernels
