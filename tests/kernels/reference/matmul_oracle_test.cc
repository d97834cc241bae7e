// Goal: the reference matrix products are good, forward and backward.
// Method: double oracle with bounds from running error analysis, in profile bf16 on operands that
// were rounded by hand; the backward products against the complex-step derivative of the forward
// one.

#include <complex>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/bf16.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/double_oracle.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

using Complex = std::complex<double>;

struct Shape {
  int64_t m, n, k;
  std::string Name() const { return absl::StrCat(m, "x", n, "x", k); }
};

class MatMulOracle : public testing::TestWithParam<std::tuple<Profile, Shape>> {
 protected:
  void SetUp() override {
    x_ = RandomFloats(m_ * k_, 1);
    w_ = RandomFloats(n_ * k_, 2);
    dy_ = RandomFloats(m_ * n_, 3);
    panels_.resize(PackedBytes(kernels_->profile(), n_, k_) / sizeof(float));
    kernels_->Pack(serial_, w_.data(), n_, k_, panels_.data());
  }
  PackedMatrix Packed() const { return {.panels = panels_.data(), .n = n_, .k = k_}; }
  // A number as it enters a product.
  oracle::Vector<RunningError> Operand(const std::vector<float>& values) const {
    oracle::Vector<RunningError> operand;
    for (const float value : values) {
      operand.push_back(kernels_->profile() == Profile::kBf16 ? RoundToBf16(value) : value);
    }
    return operand;
  }
  std::string Name() const { return shape_.Name(); }

  const Shape shape_ = std::get<1>(GetParam());
  const int64_t m_ = shape_.m, n_ = shape_.n, k_ = shape_.k;
  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels(std::get<0>(GetParam()));
  Serial serial_;
  std::vector<float> x_, w_, dy_, panels_;
};

TEST_P(MatMulOracle, ForwardIsWithinBounds) {
  std::vector<float> y(m_ * n_);
  kernels_->MatMul(serial_, x_.data(), m_, Packed(), y.data());
  ExpectWithinBounds(y, oracle::MatMul(Operand(x_), Operand(w_), m_, n_, k_), Name());
}

TEST_P(MatMulOracle, BackwardInputIsWithinBounds) {
  std::vector<float> dx(m_ * k_);
  kernels_->MatMulBackwardInput(serial_, dy_.data(), m_, Packed(), dx.data());
  ExpectWithinBounds(dx, oracle::MatMulBackwardInput(Operand(dy_), Operand(w_), m_, n_, k_),
                     Name());
}

TEST_P(MatMulOracle, BackwardWeightIsWithinBounds) {
  const std::vector<int64_t> datum_begins = {0, m_ / 3, m_};
  std::vector<float> dw(n_ * k_, 0.0f);
  kernels_->MatMulBackwardWeight(serial_, dy_.data(), x_.data(), datum_begins, n_, k_, dw.data());
  ExpectWithinBounds(dw, oracle::MatMulBackwardWeight(Operand(dy_), Operand(x_), m_, n_, k_, 2),
                     Name());
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatMulOracle,
                         testing::Combine(testing::Values(Profile::kFp32, Profile::kBf16),
                                          testing::Values(Shape{1, 1, 1}, Shape{1, 33, 7},
                                                          Shape{3, 31, 512}, Shape{2, 5, 513},
                                                          Shape{7, 64, 1100}, Shape{129, 3, 5},
                                                          Shape{300, 7, 3}, Shape{2, 1030, 9})),
                         [](const auto& info) {
                           const bool bf16 = std::get<0>(info.param) == Profile::kBf16;
                           return (bf16 ? "bf16_" : "fp32_") + std::get<1>(info.param).Name();
                         });

TEST(MatMulGradient, IsTheDerivativeOfTheForward) {
  constexpr int64_t kM = 3, kN = 5, kK = 4;
  const std::vector<float> x = RandomFloats(kM * kK, 1);
  const std::vector<float> w = RandomFloats(kN * kK, 2);
  const std::vector<float> dy = RandomFloats(kM * kN, 3);
  ExpectSameGradient(
      ComplexStepGradient(x,
                          [&](const std::vector<Complex>& point) {
                            return WeightedSum(
                                oracle::MatMul(point, oracle::To<Complex>(w), kM, kN, kK), dy);
                          }),
      oracle::MatMulBackwardInput(oracle::To<RunningError>(dy), oracle::To<RunningError>(w), kM, kN,
                                  kK),
      "dx");
  ExpectSameGradient(
      ComplexStepGradient(w,
                          [&](const std::vector<Complex>& point) {
                            return WeightedSum(
                                oracle::MatMul(oracle::To<Complex>(x), point, kM, kN, kK), dy);
                          }),
      oracle::MatMulBackwardWeight(oracle::To<RunningError>(dy), oracle::To<RunningError>(x), kM,
                                   kN, kK, 1),
      "dw");
}

TEST(Embedding, CopiesRowsAndScattersGradients) {
  constexpr int64_t kVocabulary = 37, kWidth = 5;
  const std::unique_ptr<Kernels> kernels = CreateReferenceKernels();
  Serial serial;
  const std::vector<float> table = RandomFloats(kVocabulary * kWidth, 4);
  std::vector<float> panels(PackedBytes(Profile::kFp32, kVocabulary, kWidth) / sizeof(float));
  kernels->Pack(serial, table.data(), kVocabulary, kWidth, panels.data());

  const std::vector<int32_t> tokens = {36, 0, 31, 36};
  std::vector<float> y(tokens.size() * kWidth);
  kernels->Embedding(serial, tokens, {.panels = panels.data(), .n = kVocabulary, .k = kWidth},
                     y.data());
  for (size_t row = 0; row < tokens.size(); ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      EXPECT_EQ(Bits(y[row * kWidth + i]), Bits(table[tokens[row] * kWidth + i]));
    }
  }

  const std::vector<float> dy = RandomFloats(tokens.size() * kWidth, 5);
  std::vector<float> dtable(kVocabulary * kWidth, 0.0f);
  kernels->EmbeddingBackward(serial, tokens, dy.data(), kWidth, dtable.data());
  for (int64_t i = 0; i < kWidth; ++i) {
    EXPECT_EQ(dtable[36 * kWidth + i], dy[i] + dy[3 * kWidth + i]);
    EXPECT_EQ(dtable[0 * kWidth + i], dy[1 * kWidth + i]);
    EXPECT_EQ(dtable[31 * kWidth + i], dy[2 * kWidth + i]);
    EXPECT_EQ(dtable[30 * kWidth + i], 0.0f);
  }
}

}  // namespace
}  // namespace lockstep::kernels
