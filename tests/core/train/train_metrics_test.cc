// Goal: the metrics' formulas, and the run-time comparison of log-probs. Method: numbers small
// enough to work out by hand, and the same data cut in every way.
#include "core/train/train_metrics.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

WeightsState State(uint8_t id) {
  WeightsState state;
  state.state_id[0] = id;
  state.numerics_id = "fp32";
  return state;
}

// Two data of three and one positions, one of them masked, sampled under state 1.
std::vector<Datum> MakeData() {
  std::vector<Datum> data(2);
  data[0].model_input = {1, 2, 3};
  data[0].target_tokens = {2, 3, 4};
  data[0].mask = {0, 1, 1};
  data[0].logprobs = {kNaN, -1, -2};
  data[0].sampled_under = State(1);
  data[1].model_input = {5};
  data[1].target_tokens = {6};
  data[1].logprobs = {-0.5f};
  data[1].sampled_under = State(1);
  return data;
}

// What the training forward gave, in one micro-batch.
TokenLossOutputs MakeOutputs() {
  TokenLossOutputs out;
  out.logprob = {kNaN, -1, -2, -0.5f};
  out.entropy = {100, 1, 2, 3};
  out.loss = {0, 10, 20, 30};
  out.clipped = {0, 1, 0, 0};
  return out;
}

TrainMetrics Compute(const std::vector<Datum>& data, const TokenLossOutputs& out,
                     LossAggMode mode = LossAggMode::kTokenSum,
                     const WeightsState& state = State(1)) {
  return ComputeMetrics(data, SplitByDatum(data, {&out, 1}), mode, state);
}

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TEST(TrainMetricsTest, SumsAndMeansAreOverUnmaskedTokens) {
  const std::vector<Datum> data = MakeData();
  EXPECT_EQ(CountTokens(data), 3);
  const TrainMetrics sum = Compute(data, MakeOutputs());
  EXPECT_EQ(sum.token_count, 3);
  EXPECT_EQ(sum.loss, 60);
  EXPECT_EQ(sum.entropy, 2);
  EXPECT_EQ(sum.pg_clipfrac, 1.0 / 3);
  EXPECT_EQ(Compute(data, MakeOutputs(), LossAggMode::kTokenMean).loss, 20);
}

TEST(TrainMetricsTest, EqualBitsUnderEqualWeightsMatch) {
  const TrainMetrics metrics = Compute(MakeData(), MakeOutputs());
  EXPECT_EQ(metrics.compared_tokens, 3);
  EXPECT_EQ(metrics.mismatched_tokens, 0);
  EXPECT_FALSE(metrics.first_mismatch.has_value());
  EXPECT_EQ(metrics.rollout_probs_diff_max, 0);
  EXPECT_EQ(metrics.k3_kl, 0);
  EXPECT_EQ(metrics.ppo_kl, 0);
}

TEST(TrainMetricsTest, OneBitIsAMismatchAndTheFirstIsNamed) {
  TokenLossOutputs out = MakeOutputs();
  out.logprob[2] = std::nextafter(-2.0f, 0.0f);
  out.logprob[3] = -0.25f;
  const TrainMetrics metrics = Compute(MakeData(), out);
  EXPECT_EQ(metrics.compared_tokens, 3);
  EXPECT_EQ(metrics.mismatched_tokens, 2);
  ASSERT_TRUE(metrics.first_mismatch.has_value());
  EXPECT_EQ(metrics.first_mismatch->datum_index, 0);
  EXPECT_EQ(metrics.first_mismatch->position, 2);
  EXPECT_EQ(metrics.first_mismatch->expected_bits, Bits(-2.0f));
  EXPECT_EQ(metrics.first_mismatch->actual_bits, Bits(out.logprob[2]));
}

TEST(TrainMetricsTest, OnlyEqualStateAndNumericsAreCompared) {
  TokenLossOutputs out = MakeOutputs();
  out.logprob[3] = -0.25f;
  EXPECT_EQ(Compute(MakeData(), out, LossAggMode::kTokenSum, State(2)).compared_tokens, 0);
  WeightsState other_numerics = State(1);
  other_numerics.numerics_id = "bf16";
  const TrainMetrics none = Compute(MakeData(), out, LossAggMode::kTokenSum, other_numerics);
  EXPECT_EQ(none.compared_tokens, 0);
  EXPECT_EQ(none.mismatched_tokens, 0);

  std::vector<Datum> data = MakeData();
  data[1].sampled_under.reset();
  const TrainMetrics some = Compute(data, out);
  EXPECT_EQ(some.compared_tokens, 2);
  EXPECT_EQ(some.mismatched_tokens, 0);
  // The version is for people.
  WeightsState version = State(1);
  version.weight_version = 9;
  EXPECT_EQ(Compute(MakeData(), out, LossAggMode::kTokenSum, version).compared_tokens, 3);
}

TEST(TrainMetricsTest, DataWithoutLogProbsAreNotCompared) {
  std::vector<Datum> data = MakeData();
  data[0].logprobs.clear();
  const TrainMetrics metrics = Compute(data, MakeOutputs());
  EXPECT_EQ(metrics.compared_tokens, 1);
  EXPECT_EQ(metrics.mismatched_tokens, 0);
}

TEST(TrainMetricsTest, DifferencesToTheRolloutsAreMeansOverTokens) {
  TokenLossOutputs out = MakeOutputs();
  out.logprob[1] = -1.5f;
  out.logprob[3] = -0.25f;
  const TrainMetrics metrics = Compute(MakeData(), out, LossAggMode::kTokenSum, State(2));
  const double first = std::exp(-1.0) - std::exp(-1.5);
  const double third = std::exp(-0.25) - std::exp(-0.5);
  EXPECT_NEAR(metrics.rollout_probs_diff_max, std::max(first, third), 1e-15);
  EXPECT_NEAR(metrics.rollout_probs_diff_mean, (first + third) / 3, 1e-15);
  EXPECT_NEAR(metrics.ppo_kl, (0.5 + 0 - 0.25) / 3, 1e-15);
  // k3 = r - 1 - log r with r = p_train / p_rollout (Schulman 2020, "Approximating KL divergence").
  const double k3 = (std::exp(-0.5) - 1 + 0.5) + (std::exp(0.25) - 1 - 0.25);
  EXPECT_NEAR(metrics.k3_kl, k3 / 3, 1e-15);
}

TEST(TrainMetricsTest, ALogProbThatIsNotANumberIsAMismatch) {
  TokenLossOutputs out = MakeOutputs();
  out.logprob[1] = kNaN;
  EXPECT_EQ(Compute(MakeData(), out).mismatched_tokens, 1);
}

TEST(TrainMetricsTest, EverythingMaskedIsZeroOfZero) {
  std::vector<Datum> data = MakeData();
  data[0].mask = {0, 0, 0};
  data[1].mask = {0};
  const TrainMetrics metrics = Compute(data, MakeOutputs(), LossAggMode::kTokenMean);
  EXPECT_EQ(metrics.token_count, 0);
  EXPECT_EQ(metrics.loss, 0);
  EXPECT_EQ(metrics.entropy, 0);
  EXPECT_EQ(metrics.compared_tokens, 0);
}

TEST(TrainMetricsTest, TheCutIntoMicroBatchesMovesNothing) {
  const std::vector<Datum> data = MakeData();
  TokenLossOutputs whole = MakeOutputs();
  whole.loss = {0, 0.1f, 1e8f, -1e8f};
  std::vector<TokenLossOutputs> cut(2);
  cut[0] = whole;
  for (std::vector<float>* part : {&cut[0].logprob, &cut[0].entropy, &cut[0].loss}) part->resize(3);
  cut[0].clipped.resize(3);
  cut[1].logprob = {whole.logprob[3]};
  cut[1].entropy = {whole.entropy[3]};
  cut[1].loss = {whole.loss[3]};
  cut[1].clipped = {0};
  const TrainMetrics one = Compute(data, whole);
  const TrainMetrics two =
      ComputeMetrics(data, SplitByDatum(data, cut), LossAggMode::kTokenSum, State(1));
  EXPECT_EQ(one.loss, two.loss);
  EXPECT_EQ(one.entropy, two.entropy);
  EXPECT_EQ(one.compared_tokens, two.compared_tokens);
}

TEST(TrainMetricsTest, BitsAreComparedAsIntegersAndNaNsAsOne) {
  EXPECT_TRUE(SameBits(1.5f, 1.5f));
  EXPECT_FALSE(SameBits(0.0f, -0.0f));
  EXPECT_TRUE(SameBits(kNaN, -kNaN));
  EXPECT_FALSE(SameBits(kNaN, 1));
}

}  // namespace
}  // namespace lockstep
