// Goal: the reference adds in the order that docs/numerics.md writes down, and no other.
// Method: the documented loops written out once more, compared bit by bit; as negative control, the
// nearest other orders, which must differ on the same data.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/bf16.h"
#include "kernels/fp_environment.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

class Order : public testing::Test {
 protected:
  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels();
  Serial serial_;
};

// sum over chunks of [begin, begin + chunk) of an FMA chain.
float Chunked(const std::vector<float>& a, const std::vector<float>& b, int64_t begin, int64_t end,
              int64_t chunk, float sum = 0.0f) {
  for (; begin < end; begin += chunk) {
    float chain = 0.0f;
    for (int64_t i = begin; i < std::min(begin + chunk, end); ++i) {
      chain = std::fma(a[i], b[i], chain);
    }
    sum = sum + chain;
  }
  return sum + 0.0f;
}

TEST_F(Order, MatMulChunksTheReduction) {
  constexpr int64_t kK = 1300, kN = 40;
  const std::vector<float> x = RandomFloats(kK, 1);
  const std::vector<float> w = RandomFloats(kN * kK, 2);
  std::vector<float> panels(PackedBytes(Profile::kFp32, kN, kK) / sizeof(float)), y(kN),
      one_chain(kN), other_chunk(kN), expected(kN);
  kernels_->Pack(serial_, w.data(), kN, kK, panels.data());
  kernels_->MatMul(serial_, x.data(), 1, {.panels = panels.data(), .n = kN, .k = kK}, y.data());
  FpEnvironment environment;
  for (int64_t n = 0; n < kN; ++n) {
    const std::vector<float> row(w.begin() + n * kK, w.begin() + (n + 1) * kK);
    expected[n] = Chunked(x, row, 0, kK, 512);
    one_chain[n] = Chunked(x, row, 0, kK, kK);
    other_chunk[n] = Chunked(x, row, 0, kK, 256);
  }
  EXPECT_EQ(Bits(y), Bits(expected));
  EXPECT_NE(Bits(y), Bits(one_chain));
  EXPECT_NE(Bits(y), Bits(other_chunk));
}

// In profile bf16 a chain takes pairs, the odd position first, and its operands are rounded.
TEST_F(Order, Bf16PairsTheReduction) {
  constexpr int64_t kK = 1299, kN = 40;
  const std::unique_ptr<Kernels> kernels = CreateReferenceKernels(Profile::kBf16);
  std::vector<float> x = RandomFloats(kK, 1);
  std::vector<float> w = RandomFloats(kN * kK, 2);
  std::vector<float> panels(PackedBytes(Profile::kBf16, kN, kK) / sizeof(float)), y(kN);
  kernels->Pack(serial_, w.data(), kN, kK, panels.data());
  kernels->MatMul(serial_, x.data(), 1, {.panels = panels.data(), .n = kN, .k = kK}, y.data());
  std::vector<float> unrounded(kN), expected(kN), ascending(kN);
  // Position 2i + 1 before 2i; the last one has no partner.
  const auto by_pairs = [](const std::vector<float>& values) {
    std::vector<float> swapped = values;
    for (size_t i = 0; i + 1 < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
    return swapped;
  };
  const auto row = [&w](int64_t n) {
    return std::vector<float>(w.begin() + n * kK, w.begin() + (n + 1) * kK);
  };
  FpEnvironment environment;
  for (int64_t n = 0; n < kN; ++n)
    unrounded[n] = Chunked(by_pairs(x), by_pairs(row(n)), 0, kK, 512);
  for (std::vector<float>* operand : {&x, &w}) {
    for (float& value : *operand) value = RoundToBf16(value);
  }
  for (int64_t n = 0; n < kN; ++n) {
    expected[n] = Chunked(by_pairs(x), by_pairs(row(n)), 0, kK, 512);
    ascending[n] = Chunked(x, row(n), 0, kK, 512);
  }
  EXPECT_EQ(Bits(y), Bits(expected));
  EXPECT_NE(Bits(y), Bits(ascending));
  EXPECT_NE(Bits(y), Bits(unrounded));
}

TEST_F(Order, BackwardInputChunksOverOutputs) {
  constexpr int64_t kN = 1100, kK = 20;
  const std::vector<float> dy = RandomFloats(kN, 1);
  const std::vector<float> w = RandomFloats(kN * kK, 2);
  std::vector<float> panels(PackedBytes(Profile::kFp32, kN, kK) / sizeof(float)), dx(kK),
      expected(kK), one_chain(kK);
  kernels_->Pack(serial_, w.data(), kN, kK, panels.data());
  kernels_->MatMulBackwardInput(serial_, dy.data(), 1, {.panels = panels.data(), .n = kN, .k = kK},
                                dx.data());
  FpEnvironment environment;
  for (int64_t k = 0; k < kK; ++k) {
    std::vector<float> column(kN);
    for (int64_t n = 0; n < kN; ++n) column[n] = w[n * kK + k];
    expected[k] = Chunked(dy, column, 0, kN, 512);
    one_chain[k] = Chunked(dy, column, 0, kN, kN);
  }
  EXPECT_EQ(Bits(dx), Bits(expected));
  EXPECT_NE(Bits(dx), Bits(one_chain));
}

TEST_F(Order, BackwardWeightChunksWithinTheDatum) {
  constexpr int64_t kM = 700;
  const std::vector<float> dy = RandomFloats(kM, 1);
  const std::vector<float> x = RandomFloats(kM, 2);
  float dw = 0.5f;
  kernels_->MatMulBackwardWeight(serial_, dy.data(), x.data(), {0, 300, kM}, 1, 1, &dw);
  FpEnvironment environment;
  const float first = Chunked(dy, x, 0, 300, 128, 0.5f);
  EXPECT_EQ(Bits(dw), Bits(Chunked(dy, x, 300, kM, 128, first)));
  EXPECT_NE(Bits(dw), Bits(Chunked(dy, x, 0, kM, 128, 0.5f))) << "chunks that ignore the data";
}

// The row-reduction shape, written for sums of squares.
float SquaresInRowShape(const std::vector<float>& x, int64_t chains_per_block) {
  float sum = 0.0f;
  const int64_t n = static_cast<int64_t>(x.size());
  for (int64_t block = 0; block < n; block += 1024) {
    std::vector<float> chain(chains_per_block, 0.0f);
    for (int64_t i = block; i < std::min(block + 1024, n); ++i) {
      chain[i % chains_per_block] = std::fma(x[i], x[i], chain[i % chains_per_block]);
    }
    for (int64_t half = chains_per_block / 2; half > 0; half /= 2) {
      for (int64_t c = 0; c < half; ++c) chain[c] += chain[c + half];
    }
    sum += chain[0];
  }
  return sum + 0.0f;
}

// Two orders may give one sum the same bits by chance, so several lengths are compared at once.
TEST_F(Order, RowReductionsHave64ChainsAndATree) {
  std::vector<float> got, expected, fewer_chains, one_chain;
  for (int64_t n = 2000; n < 2040; ++n) {
    const std::vector<float> x = RandomFloats(n, static_cast<uint32_t>(n));
    got.push_back(static_cast<float>(kernels_->SumOfSquares(serial_, x.data(), n)));
    FpEnvironment environment;
    expected.push_back(SquaresInRowShape(x, 64));
    fewer_chains.push_back(SquaresInRowShape(x, 32));
    one_chain.push_back(Chunked(x, x, 0, n, n));
  }
  EXPECT_EQ(Bits(got), Bits(expected));
  EXPECT_NE(Bits(got), Bits(fewer_chains));
  EXPECT_NE(Bits(got), Bits(one_chain));
}

TEST_F(Order, RmsNormUsesTheRowReduction) {
  constexpr float kEpsilon = 1e-6f;
  const std::vector<float> x = RandomFloats(1500, 1), weight = RandomFloats(1500, 2);
  std::vector<float> y(1500), expected(1500);
  float r = 0;
  kernels_->RmsNorm(serial_, x.data(), weight.data(), 1, 1500, kEpsilon, y.data(), &r);
  FpEnvironment environment;
  EXPECT_EQ(Bits(r), Bits(1.0f / std::sqrt(SquaresInRowShape(x, 64) / 1500.0f + kEpsilon)));
  for (size_t i = 0; i < 1500; ++i) expected[i] = x[i] * r * weight[i];
  EXPECT_EQ(Bits(y), Bits(expected));
  for (size_t i = 0; i < 1500; ++i) expected[i] = x[i] * (r * weight[i]);
  EXPECT_NE(Bits(y), Bits(expected));
}

}  // namespace
}  // namespace lockstep::kernels
