// Goal: the reference RMSNorm is good, forward and backward.
// Method: double oracle with bounds from running error analysis; the backward formula against the
// complex-step derivative of the forward.

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
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
