// Goal: losses and their coefficients are the formulas of cross_entropy_loss.h and ppo_loss.h.
// Method: an oracle in double, with tolerances from the few fp32 roundings that there are;
// coefficients against central differences of the oracle; the exact cases (on policy, masked,
// clipped) to the bit.
#include "core/model/token_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/model/philox.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/support/same_bits.h"

namespace lockstep {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kEpsilon = 0x1p-23;

const kernels::Kernels& TestedKernels() {
  static const auto* const kKernels = [] {
    kernels::Serial serial;
    auto selected = kernels::SelectKernels(serial, std::nullopt);
    EXPECT_TRUE(selected.ok()) << selected.status();
    return selected->kernels.release();
  }();
  return *kKernels;
}

struct TestDatum {
  std::vector<float> logprob;
  std::vector<float> entropy;
  std::vector<float> mask;
  std::vector<float> weight;
  std::vector<float> old_logprob;
  std::vector<float> advantage;

  void Add(float logprob_value, float old_value, float advantage_value, float weight_value = 1,
           float mask_value = 1) {
    logprob.push_back(logprob_value);
    entropy.push_back(0.5f);
    mask.push_back(mask_value);
    weight.push_back(weight_value);
    old_logprob.push_back(old_value);
    advantage.push_back(advantage_value);
  }
};

struct Evaluated {
  std::vector<float> loss;
  std::vector<float> coefficient;
  std::vector<uint8_t> clipped;
};

Evaluated Evaluate(const LossConfig& config, const TestDatum& datum) {
  // Everything is overwritten, so it begins as something else.
  const size_t n = datum.logprob.size();
  Evaluated out{std::vector<float>(n, 99), std::vector<float>(n, 99), std::vector<uint8_t>(n, 99)};
  MakeTokenLoss(config, TestedKernels())
      ->Evaluate({datum.logprob, datum.entropy, datum.mask, datum.weight, datum.old_logprob,
                  datum.advantage},
                 absl::MakeSpan(out.loss), absl::MakeSpan(out.coefficient),
                 absl::MakeSpan(out.clipped));
  return out;
}

const LossConfig kCrossEntropy{LossKind::kCrossEntropy, 0.8f, 1.2f};
const LossConfig kPpo{LossKind::kPpo, 0.8f, 1.2f};

double PpoOracle(const LossConfig& config, double logprob, double old, double a, double weight) {
  const double r = std::exp(logprob - old);
  const double bounded =
      std::clamp<double>(r, config.clip_low_threshold, config.clip_high_threshold);
  return weight * std::max(-a * r, -a * bounded);
}

TEST(CrossEntropyLossTest, IsTheWeightedNegativeLogProb) {
  TestDatum datum;
  for (uint64_t i = 0; i < 50; ++i) {
    datum.Add(static_cast<float>(-9 * PhiloxUniform(1, i, 0)), kNaN, 0,
              static_cast<float>(4 * PhiloxUniform(1, i, 1) - 2));
  }
  const Evaluated out = Evaluate(kCrossEntropy, datum);
  for (size_t i = 0; i < 50; ++i) {
    // One product each, rounded once.
    EXPECT_TRUE(SameBits(out.loss[i], -datum.weight[i] * datum.logprob[i]));
    EXPECT_TRUE(SameBits(out.coefficient[i], -datum.weight[i]));
    EXPECT_EQ(out.clipped[i], 0);
  }
}

TEST(PpoLossTest, OnPolicyRatioIsExactlyOne) {
  TestDatum datum;
  for (uint64_t i = 0; i < 200; ++i) {
    const float logprob = static_cast<float>(-30 * PhiloxUniform(2, i, 0));
    datum.Add(logprob, logprob, static_cast<float>(2 * PhiloxUniform(2, i, 1) - 1));
  }
  const Evaluated out = Evaluate(kPpo, datum);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_TRUE(SameBits(out.loss[i], -datum.advantage[i]));
    EXPECT_TRUE(SameBits(out.coefficient[i], -datum.advantage[i]));
    EXPECT_EQ(out.clipped[i], 0);
  }
}

TEST(PpoLossTest, OneUnitOffPolicyIsNoticed) {
  const float logprob = -2.5f;
  TestDatum datum;
  datum.Add(logprob, std::nextafter(logprob, 0.0f), 1);
  EXPECT_FALSE(SameBits(Evaluate(kPpo, datum).loss[0], -1.0f));
}

TEST(PpoLossTest, IsTheClippedSurrogateAndItsDerivative) {
  for (const LossConfig& config : {kPpo, LossConfig{LossKind::kPpo, 0.5f, 3.0f}}) {
    TestDatum datum;
    for (uint64_t i = 0; i < 400; ++i) {
      const double old = -6 * PhiloxUniform(3, i, 0);
      datum.Add(static_cast<float>(old + 3 * (PhiloxUniform(3, i, 1) - 0.5)),
                static_cast<float>(old), static_cast<float>(4 * PhiloxUniform(3, i, 2) - 2),
                static_cast<float>(2 * PhiloxUniform(3, i, 3)));
    }
    const Evaluated out = Evaluate(config, datum);
    int64_t clipped_count = 0;
    for (size_t i = 0; i < datum.logprob.size(); ++i) {
      const double logprob = datum.logprob[i];
      const double old = datum.old_logprob[i];
      const double a = datum.advantage[i];
      const double weight = datum.weight[i];
      const double loss = PpoOracle(config, logprob, old, a, weight);
      // The difference of two log-probs is rounded once (relative to at most 8), exp is good to two
      // units, two products.
      const double size = std::abs(weight * a) * std::exp(logprob - old);
      const double tolerance = (8 + 4) * kEpsilon * std::max(size, std::abs(loss));
      EXPECT_NEAR(out.loss[i], loss, tolerance);

      const double h = 1e-6;
      const double slope = (PpoOracle(config, logprob + h, old, a, weight) -
                            PpoOracle(config, logprob - h, old, a, weight)) /
                           (2 * h);
      EXPECT_NEAR(out.coefficient[i], slope, tolerance + 1e-8);
      EXPECT_EQ(out.clipped[i] != 0, slope == 0) << "token " << i;
      clipped_count += out.clipped[i];
    }
    EXPECT_GT(clipped_count, 20);
  }
}

TEST(PpoLossTest, ClipsOnlyWhereTheRatioWouldGainByIt) {
  const float high = std::log(2.0f);
  const float low = std::log(0.5f);
  struct Case {
    float log_ratio;
    float advantage;
    bool clipped;
    float bound;
  };
  for (const Case& c : {Case{high, 1, true, 1.2f}, Case{high, -1, false, 0}, Case{low, 1, false, 0},
                        Case{low, -1, true, 0.8f}}) {
    TestDatum datum;
    datum.Add(-3 + c.log_ratio, -3, c.advantage);
    const Evaluated out = Evaluate(kPpo, datum);
    EXPECT_EQ(out.clipped[0] != 0, c.clipped) << c.log_ratio << " " << c.advantage;
    if (c.clipped) {
      EXPECT_TRUE(SameBits(out.loss[0], -c.advantage * c.bound));
      EXPECT_EQ(out.coefficient[0], 0);
    } else {
      EXPECT_NEAR(out.loss[0], -c.advantage * std::exp(c.log_ratio), 1e-6);
      EXPECT_TRUE(SameBits(out.coefficient[0], out.loss[0]));
    }
  }
}

TEST(PpoLossTest, ARatioWithoutBoundIsClippedToAFiniteLossOrStaysVisible) {
  TestDatum datum;
  datum.Add(-1, -200, 1);   // gains: clipped
  datum.Add(-1, -200, -1);  // loses: infinite, and the step will say so
  const Evaluated out = Evaluate(kPpo, datum);
  EXPECT_TRUE(SameBits(out.loss[0], -1.2f));
  EXPECT_EQ(out.coefficient[0], 0);
  EXPECT_TRUE(std::isinf(out.loss[1]));
}

TEST(TokenLossTest, MaskedTokensAreZeroWhateverTheyHold) {
  for (const LossConfig& config : {kCrossEntropy, kPpo}) {
    TestDatum datum;
    datum.Add(kNaN, kNaN, 3, 2, 0);
    datum.Add(-1, -1, 3, 2, 1);
    datum.Add(kNaN, -1, 3, 2, 0);
    const Evaluated out = Evaluate(config, datum);
    for (const size_t i : {0u, 2u}) {
      EXPECT_TRUE(SameBits(out.loss[i], 0.0f));
      EXPECT_TRUE(SameBits(out.coefficient[i], 0.0f));
      EXPECT_EQ(out.clipped[i], 0);
    }
    EXPECT_NE(out.coefficient[1], 0);
  }
}

TEST(TokenLossTest, ANumberThatIsNotOneIsNotHidden) {
  TestDatum datum;
  datum.Add(kNaN, -1, 1);
  EXPECT_TRUE(std::isnan(Evaluate(kPpo, datum).coefficient[0]));
  EXPECT_TRUE(std::isnan(Evaluate(kCrossEntropy, datum).loss[0]));
}

}  // namespace
}  // namespace lockstep
