// Goal: the reference Add, SiluMul and Rope are good, forward and backward.
// Method: double oracle with bounds from running error analysis; the backward formulas against the
// complex-step derivative of the forward.

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/host_math.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/double_oracle.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

using Complex = std::complex<double>;

class ElementwiseOracle : public testing::Test {
 protected:
  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels();
  Serial serial_;
};

TEST_F(ElementwiseOracle, AddMayRunInPlace) {
  std::vector<float> a = RandomFloats(101, 1);
  const std::vector<float> b = RandomFloats(101, 2);
  std::vector<RunningError> expected;
  for (size_t i = 0; i < a.size(); ++i) expected.push_back(RunningError(a[i]) + b[i]);
  kernels_->Add(serial_, a.data(), b.data(), 101, a.data());
  ExpectWithinBounds(a, expected, "a + b");
}

TEST_F(ElementwiseOracle, AddBiasAddsOneRowToAllAndItsGradientSumsThem) {
  constexpr int64_t kM = 5, kN = 37;
  std::vector<float> y = RandomFloats(kM * kN, 1);
  const std::vector<float> bias = RandomFloats(kN, 2);
  std::vector<RunningError> expected;
  for (int64_t i = 0; i < kM * kN; ++i) expected.push_back(RunningError(y[i]) + bias[i % kN]);
  const std::vector<float> dy = y;
  kernels_->AddBias(serial_, bias.data(), kM, kN, y.data());
  ExpectWithinBounds(y, expected, "y + bias");

  std::vector<float> dbias(kN, 0.0f);
  const std::vector<int64_t> datum_begins = {0, 3, kM};
  kernels_->AddBiasBackward(serial_, dy.data(), datum_begins, kN, dbias.data());
  std::vector<RunningError> sums;
  for (int64_t j = 0; j < kN; ++j) {
    oracle::Vector<RunningError> terms;
    for (int64_t row = 0; row < kM; ++row) terms.push_back(dy[row * kN + j]);
    sums.push_back(Sum(terms, oracle::TokenDepth(kM, 2)));
  }
  ExpectWithinBounds(dbias, sums, "dbias");
}

TEST_F(ElementwiseOracle, SiluMulIsWithinBounds) {
  constexpr int64_t kM = 3, kF = 37;
  const std::vector<float> gate_up = RandomFloats(kM * 2 * kF, 1, 20.0f);
  const std::vector<float> dy = RandomFloats(kM * kF, 2);
  std::vector<float> y(kM * kF);
  kernels_->SiluMul(serial_, gate_up.data(), kM, kF, y.data());
  const std::vector<RunningError> exact = oracle::To<RunningError>(gate_up);
  ExpectWithinBounds(y, oracle::SiluMul(exact, kM, kF), "y");

  std::vector<float> gradient(gate_up.size());
  kernels_->SiluMulBackward(serial_, gate_up.data(), dy.data(), kM, kF, gradient.data());
  ExpectWithinBounds(gradient, oracle::SiluMulBackward(exact, oracle::To<RunningError>(dy), kM, kF),
                     "dgate_up");
}

TEST_F(ElementwiseOracle, SiluMulBackwardIsTheDerivativeOfTheForward) {
  constexpr int64_t kM = 2, kF = 9;
  const std::vector<float> gate_up = RandomFloats(kM * 2 * kF, 1, 8.0f);
  const std::vector<float> dy = RandomFloats(kM * kF, 2);
  ExpectSameGradient(ComplexStepGradient(gate_up,
                                         [&](const std::vector<Complex>& point) {
                                           return WeightedSum(oracle::SiluMul(point, kM, kF), dy);
                                         }),
                     oracle::SiluMulBackward(oracle::To<RunningError>(gate_up),
                                             oracle::To<RunningError>(dy), kM, kF),
                     "dgate_up");
}

// Two rows at scattered positions, three heads, and a float behind them that must not change.
class RopeOracle : public ElementwiseOracle {
 protected:
  static constexpr int64_t kHeads = 3, kHeadDim = 8, kStride = kHeads * kHeadDim + 1;
  const std::vector<int32_t> positions_ = {977, 3};
  const host::RopeTables tables_ = host::MakeRopeTables(1000, kHeadDim, 10000.0);

  template <typename T>
  std::vector<T> Rotated(const std::vector<float>& x, double sine_sign) const {
    std::vector<T> expected(x.begin(), x.end());
    for (size_t row = 0; row < positions_.size(); ++row) {
      std::vector<T> cosine, sine;
      for (int64_t i = 0; i < kHeadDim / 2; ++i) {
        cosine.push_back(T(tables_.cosine[positions_[row] * kHeadDim / 2 + i]));
        sine.push_back(T(sine_sign * tables_.sine[positions_[row] * kHeadDim / 2 + i]));
      }
      for (int64_t head = 0; head < kHeads; ++head) {
        const auto begin = expected.begin() + row * kStride + head * kHeadDim;
        const std::vector<T> y =
            oracle::Rope(std::vector<T>(begin, begin + kHeadDim), cosine, sine);
        std::copy(y.begin(), y.end(), begin);
      }
    }
    return expected;
  }

  void ExpectRotated(const std::vector<float>& x, const std::vector<float>& got, double sign) {
    const std::vector<RunningError> expected = Rotated<RunningError>(x, sign);
    std::vector<float> rotated;
    std::vector<RunningError> bounds;
    for (size_t i = 0; i < x.size(); ++i) {
      if (i % kStride == kStride - 1) {
        EXPECT_EQ(Bits(got[i]), Bits(x[i])) << "behind the heads";
      } else {
        rotated.push_back(got[i]);
        bounds.push_back(expected[i]);
      }
    }
    ExpectWithinBounds(rotated, bounds, "rotated");
  }
};

TEST_F(RopeOracle, ForwardIsWithinBounds) {
  const std::vector<float> x = RandomFloats(positions_.size() * kStride, 1);
  std::vector<float> y = x;
  kernels_->Rope(serial_, y.data(), kStride, kHeads, kHeadDim, positions_, tables_.cosine.data(),
                 tables_.sine.data());
  ExpectRotated(x, y, 1.0);
}

// A rotation's transpose turns by the negative angle.
TEST_F(RopeOracle, BackwardIsTheTransposedRotation) {
  const std::vector<float> dy = RandomFloats(positions_.size() * kStride, 2);
  std::vector<float> dx = dy;
  kernels_->RopeBackward(serial_, dx.data(), kStride, kHeads, kHeadDim, positions_,
                         tables_.cosine.data(), tables_.sine.data());
  ExpectRotated(dy, dx, -1.0);
}

TEST_F(RopeOracle, TransposedRotationIsTheDerivativeOfTheForward) {
  const std::vector<float> x = RandomFloats(4, 1);
  const std::vector<float> dy = RandomFloats(4, 2);
  const std::vector<float> cosine = RandomFloats(2, 3), sine = RandomFloats(2, 4);
  std::vector<RunningError> negative_sine;
  for (const float s : sine) negative_sine.push_back(RunningError(-s));
  ExpectSameGradient(
      ComplexStepGradient(x,
                          [&](const std::vector<Complex>& point) {
                            return WeightedSum(oracle::Rope(point, oracle::To<Complex>(cosine),
                                                            oracle::To<Complex>(sine)),
                                               dy);
                          }),
      oracle::Rope(oracle::To<RunningError>(dy), oracle::To<RunningError>(cosine), negative_sine),
      "dx");
}

}  // namespace
}  // namespace lockstep::kernels
