// Goal: denormals, signed zeros, infinities and NaN do what docs/numerics.md says, and the caller's
// floating-point state survives.
// Method: hand-made inputs, results compared as integers.

#include <xmmintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/fp_environment.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kCanonicalNaN = 0x7fc00000;
constexpr float kDenormal = 0x1p-130f;
const float kOtherNaN = std::bit_cast<float>(uint32_t{0xffd00001});

// The same in both profiles: the values below are numbers in bf16 too.
class EdgeValues : public testing::TestWithParam<Profile> {
 protected:
  // x . w of width k = x.size() for one output.
  float Product(const std::vector<float>& x, const std::vector<float>& w) {
    std::vector<float> panels(PackedBytes(GetParam(), 1, x.size()) / sizeof(float));
    kernels_->Pack(serial_, w.data(), 1, x.size(), panels.data());
    float y = 1;
    kernels_->MatMul(serial_, x.data(), 1,
                     {.panels = panels.data(), .n = 1, .k = static_cast<int64_t>(x.size())}, &y);
    return y;
  }

  struct Statistics {
    float log_sum_exp, log_prob, entropy;
  };
  Statistics LogProb(const std::vector<float>& logits, int32_t target, float temperature = 1.0f) {
    Statistics s;
    kernels_->LogProb(serial_, logits.data(), 1, logits.size(), &temperature, &target,
                      &s.log_sum_exp, &s.log_prob, &s.entropy);
    return s;
  }

  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels(GetParam());
  Serial serial_;
};

TEST(FpEnvironmentTest, IsSetWhileItLivesAndRestoredAfter) {
  const unsigned before = _mm_getcsr();
  volatile float denormal = kDenormal;
  volatile float tiny = 0x1p-100f;
  {
    FpEnvironment environment;
    EXPECT_EQ(_mm_getcsr() & 0xffc0u, 0x9fc0u);
    EXPECT_EQ(denormal * 0x1p20f, 0.0f) << "denormals are zero";
    EXPECT_EQ(tiny * tiny, 0.0f);
    EXPECT_EQ(tiny * 0x1p-30f, 0.0f) << "flush to zero";
  }
  EXPECT_EQ(_mm_getcsr() & 0xffc0u, before & 0xffc0u);
  EXPECT_NE(tiny * 0x1p-30f, 0.0f) << "negative control: the default keeps denormals";
}

TEST_P(EdgeValues, OperationsOverrideTheCallersRounding) {
  const std::vector<float> x = {1.0f, 0x1p-30f}, w = {1.0f, 1.0f};
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~0x6000u) | 0x4000u);  // towards +inf
  const float y = Product(x, w);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(Bits(y), Bits(1.0f));
  EXPECT_EQ(after & 0x6000u, 0x4000u) << "the caller's mode is put back";
}

TEST_P(EdgeValues, MinusZeroNeverLeavesASum) {
  EXPECT_EQ(Bits(Product({-0.0f}, {1.0f})), Bits(0.0f));
  EXPECT_EQ(Bits(Product({0.0f}, {-1.0f})), Bits(0.0f));
  // A flushed chain has the sign of what was lost.
  EXPECT_EQ(Bits(Product({-0x1p-100f}, {0x1p-100f})), Bits(0.0f));
  const std::vector<float> a = {-0.0f, -kDenormal}, b = {-0.0f, -0.0f};
  std::vector<float> y(2);
  kernels_->Add(serial_, a.data(), b.data(), 2, y.data());
  EXPECT_EQ(Bits(y), Bits(std::vector<float>{0.0f, 0.0f}));
  const std::vector<float> gate_up = {-100.0f, 1.0f};
  kernels_->SiluMul(serial_, gate_up.data(), 1, 1, y.data());
  EXPECT_EQ(Bits(y[0]), Bits(0.0f));
}

TEST_P(EdgeValues, DenormalsReadAsZero) {
  EXPECT_EQ(Bits(Product({kDenormal}, {0x1p100f})), Bits(0.0f));
  EXPECT_EQ(Bits(Product({0x1p-100f}, {0x1p-26f})), Bits(0x1p-126f)) << "the smallest survivor";
  EXPECT_EQ(Bits(Product({0x1p-100f}, {0x1p-27f})), Bits(0.0f));
}

TEST_P(EdgeValues, NaNsBecomeTheOneNaN) {
  EXPECT_EQ(Bits(Product({kOtherNaN}, {1.0f})), kCanonicalNaN);
  EXPECT_EQ(Bits(Product({kInf, -kInf}, {1.0f, 1.0f})), kCanonicalNaN);
  EXPECT_EQ(Bits(Product({kInf}, {0.0f})), kCanonicalNaN);
  std::vector<float> y = {kOtherNaN};
  const float zero = 0.0f;
  kernels_->Add(serial_, y.data(), &zero, 1, y.data());
  EXPECT_EQ(Bits(y[0]), kCanonicalNaN);
}

TEST_P(EdgeValues, SiluIsFiniteAtExtremes) {
  const std::vector<float> gates = {-100.0f, 100.0f, -3e38f, 3e38f, -88.8f, 0.0f};
  for (const float gate : gates) {
    const std::vector<float> gate_up = {gate, 0.5f};
    const float dy = 1.0f;
    float y = 0;
    std::vector<float> gradient(2);
    kernels_->SiluMul(serial_, gate_up.data(), 1, 1, &y);
    kernels_->SiluMulBackward(serial_, gate_up.data(), &dy, 1, 1, gradient.data());
    EXPECT_EQ(y, gate > 0 ? gate * 0.5f : y) << gate;
    EXPECT_LE(std::abs(y), gate > 0 ? gate : 1e-30f) << gate;
    EXPECT_TRUE(std::isfinite(gradient[0]) && std::isfinite(gradient[1])) << gate;
    EXPECT_NEAR(gradient[0], gate > 0 ? 0.5f : gate == 0 ? 0.25f : 0.0f, 1e-7) << gate;
  }
}

TEST_P(EdgeValues, OneElementRowsHaveLogProbZero) {
  for (const float logit : {-37.25f, 0.0f, -0.0f, 3e38f, 1e-3f}) {
    for (const float temperature : {1.0f, 0.7f}) {
      const Statistics s = LogProb({logit}, 0, temperature);
      if (logit == 3e38f && temperature < 1) continue;  // overflows
      EXPECT_EQ(Bits(s.log_prob), Bits(0.0f)) << logit;
      EXPECT_EQ(Bits(s.entropy), Bits(0.0f)) << logit;
    }
  }
}

TEST_P(EdgeValues, MinusInfinityLogitsHaveProbabilityZero) {
  const Statistics s = LogProb({1.0f, -kInf, 1.0f, -kInf}, 0);
  EXPECT_NEAR(s.log_prob, -std::log(2.0), 1e-7);
  EXPECT_NEAR(s.entropy, std::log(2.0), 1e-6);
  EXPECT_EQ(LogProb({1.0f, -kInf}, 1).log_prob, -kInf);
}

TEST_P(EdgeValues, AWholeBlockOfMinusInfinityAddsNothing) {
  std::vector<float> logits(3000, -kInf);
  logits[1500] = 2.0f;  // the first and the last block of 1,024 are empty
  const Statistics s = LogProb(logits, 1500);
  EXPECT_EQ(Bits(s.log_prob), Bits(0.0f));
  EXPECT_EQ(Bits(s.entropy), Bits(0.0f));
}

TEST_P(EdgeValues, HopelessRowsAreNaN) {
  for (const std::vector<float>& logits :
       {std::vector<float>{-kInf, -kInf}, {0.0f, kOtherNaN}, {0.0f, kInf}}) {
    const Statistics s = LogProb(logits, 0);
    EXPECT_EQ(Bits(s.log_sum_exp), kCanonicalNaN);
    EXPECT_EQ(Bits(s.log_prob), kCanonicalNaN);
    EXPECT_EQ(Bits(s.entropy), kCanonicalNaN);
  }
  EXPECT_EQ(Bits(LogProb({0.0f, 1.0f}, -1).log_prob), kCanonicalNaN) << "no target";
  EXPECT_FALSE(std::isnan(LogProb({0.0f, 1.0f}, -1).log_sum_exp));
}

TEST_P(EdgeValues, ACoefficientOfZeroGivesZeros) {
  std::vector<float> logits = {kOtherNaN, -kInf, 3.0f};
  const float temperature = 1.0f, log_sum_exp = kOtherNaN, coefficient = 0.0f;
  const int32_t target = 2;
  kernels_->LogProbBackward(serial_, logits.data(), 1, 3, &temperature, &target, &log_sum_exp,
                            &coefficient);
  EXPECT_EQ(Bits(logits), Bits(std::vector<float>(3, 0.0f)));
}

INSTANTIATE_TEST_SUITE_P(Profiles, EdgeValues, testing::Values(Profile::kFp32, Profile::kBf16),
                         [](const testing::TestParamInfo<Profile>& info) {
                           return info.param == Profile::kFp32 ? "fp32" : "bf16";
                         });

// What enters a product is rounded first: both operands, by the rules of bf16_test.
class Bf16EdgeValues : public EdgeValues {};

TEST_P(Bf16EdgeValues, OperandsAreRoundedAsTheyEnter) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(Product({kLargest}, {0x1p-10f}), kInf);
  EXPECT_EQ(Product({0x1p-10f}, {-kLargest}), -kInf);
  EXPECT_EQ(Bits(Product({kLargest}, {0.0f})), kCanonicalNaN) << "inf * 0";
  EXPECT_EQ(Product({0x1.01p0f}, {1.0f}), 1.0f) << "a tie, to even";
  EXPECT_EQ(Product({0x1.03p0f}, {1.0f}), 0x1.04p0f) << "a tie, to even";
  EXPECT_EQ(Product({1.0f}, {0x1.010002p0f}), 0x1.02p0f);
  // The largest denormal is a zero, not the smallest normal number, which is next to it.
  EXPECT_EQ(Bits(Product({0x1.fffffcp-127f}, {0x1p100f})), Bits(0.0f));
  EXPECT_EQ(Product({0x1p-126f}, {0x1p100f}), 0x1p-26f);
}

// An odd length is a pair with a zero: neither -0 nor NaN comes of it.
TEST_P(Bf16EdgeValues, TheOddElementIsPairedWithNothing) {
  EXPECT_EQ(Product({1.0f, 2.0f, 4.0f}, {1.0f, 1.0f, 1.0f}), 7.0f);
  EXPECT_EQ(Product({1.0f, 1.0f, kInf}, {1.0f, 1.0f, 1.0f}), kInf);
  EXPECT_EQ(Bits(Product({-0.0f, -0.0f, -0.0f}, {1.0f, 1.0f, 1.0f})), Bits(0.0f));
}

INSTANTIATE_TEST_SUITE_P(Profile, Bf16EdgeValues, testing::Values(Profile::kBf16));

}  // namespace
}  // namespace lockstep::kernels
