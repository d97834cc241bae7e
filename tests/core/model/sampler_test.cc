// Goal: the distribution that a token is drawn from and the log-prob it is reported with are what
// docs/numerics.md, "Sampling", says, and a draw is a function of logits, parameters and key alone.
// Method: kept sets against a slow oracle in double that sorts; frequencies against probabilities
// by chi-square with fixed seeds, and the same test against a wrong distribution; log-probs against
// the bits that scoring gets from the same kernels.
#include "core/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/model/philox.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/support/same_bits.h"

namespace lockstep {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLargeVocabSize = 49152;

const kernels::Kernels& TestedKernels() {
  static const auto* const kKernels = [] {
    kernels::Serial serial;
    auto selected = kernels::SelectKernels(serial, std::nullopt);
    EXPECT_TRUE(selected.ok()) << selected.status();
    return selected->kernels.release();
  }();
  return *kKernels;
}

// About normal: the sum of four uniforms, of variance 1 / 3.
std::vector<float> RandomLogits(uint64_t seed, int64_t v, double deviation) {
  std::vector<float> logits;
  for (int64_t i = 0; i < v; ++i) {
    double sum = -2;
    for (uint64_t j = 0; j < 4; ++j) sum += PhiloxUniform(seed, static_cast<uint64_t>(i), j);
    logits.push_back(static_cast<float>(deviation * std::sqrt(3.0) * sum));
  }
  return logits;
}

class SamplerTest : public testing::Test {
 protected:
  SampledToken Sample(const std::vector<float>& logits, const SamplingParams& params,
                      const DrawKey& key) {
    return sampler_.Sample(logits.data(), static_cast<int64_t>(logits.size()), params, key);
  }

  // Log-probs of every token, as Score and training compute them.
  float KernelLogProb(const std::vector<float>& logits, float temperature, int32_t target) {
    float log_sum_exp;
    float log_prob;
    TestedKernels().LogProb(serial_, logits.data(), 1, static_cast<int64_t>(logits.size()),
                            &temperature, &target, &log_sum_exp, &log_prob, nullptr);
    return log_prob;
  }
  std::vector<float> KernelProbabilities(const std::vector<float>& logits) {
    const int64_t v = static_cast<int64_t>(logits.size());
    const float one = 1;
    const int32_t none = -1;
    float log_sum_exp;
    float log_prob;
    TestedKernels().LogProb(serial_, logits.data(), 1, v, &one, &none, &log_sum_exp, &log_prob,
                            nullptr);
    std::vector<float> p(v);
    TestedKernels().Probabilities(logits.data(), v, 1, log_sum_exp, p.data());
    return p;
  }

  kernels::Serial serial_;
  Sampler sampler_{TestedKernels(), serial_};
};

// What the transform leaves, in double: id to probability.
std::map<int32_t, double> OracleDistribution(const std::vector<float>& logits,
                                             const SamplingParams& params) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
    order.resize(params.top_k);
  }
  const auto weight = [&](int32_t id) {
    return std::exp((static_cast<double>(logits[id]) - logits[order[0]]) / params.temperature);
  };
  double total = 0;
  for (const int32_t id : order) total += weight(id);
  std::map<int32_t, double> kept;
  double mass = 0;
  double kept_weight = 0;
  for (const int32_t id : order) {
    if (!kept.empty() && params.top_p < 1 && mass >= params.top_p) break;
    if (weight(id) < params.min_p) break;  // of the best, whose weight is 1
    mass += weight(id) / total;
    kept_weight += weight(id);
    kept[id] = weight(id);
  }
  for (auto& [id, p] : kept) p /= kept_weight;
  return kept;
}

TEST_F(SamplerTest, GreedyTakesTheLowestIdOfATieWithLogProbZero) {
  const std::vector<float> logits = {1, 3, -2, 3, 3, 0};
  SamplingParams greedy;
  greedy.temperature = 0;
  greedy.top_k = 2;  // no part in it
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SampledToken sampled = Sample(logits, greedy, {seed, 0, seed});
    EXPECT_TRUE(sampled.finite);
    EXPECT_EQ(sampled.token, 1);
    EXPECT_TRUE(SameBits(sampled.logprob, 0.0f));
    EXPECT_TRUE(SameBits(sampled.raw_logprob, KernelLogProb(logits, 1, 1)));
  }
}

TEST_F(SamplerTest, LogProbHasTheBitsOfScoringAtEveryTemperature) {
  const std::vector<float> logits = RandomLogits(1, 1500, 3);
  for (const float temperature : {0.5f, 0.7f, 1.0f, 1.5f}) {
    SamplingParams params;
    params.temperature = temperature;
    for (uint64_t position = 0; position < 40; ++position) {
      const SampledToken sampled = Sample(logits, params, {5, 0, position});
      EXPECT_TRUE(SameBits(sampled.logprob, KernelLogProb(logits, temperature, sampled.token)));
      EXPECT_TRUE(SameBits(sampled.raw_logprob, KernelLogProb(logits, 1, sampled.token)));
    }
  }
}

TEST_F(SamplerTest, TemperatureIsADivision) {
  const std::vector<float> logits = RandomLogits(2, 300, 5);
  const float temperature = 0.7f;
  std::vector<float> divided = logits;
  std::vector<float> multiplied = logits;
  for (float& x : divided) x = x / temperature;
  for (float& x : multiplied) x = x * (1 / temperature);
  SamplingParams params;
  params.temperature = temperature;
  int64_t multiplication_differs = 0;
  for (uint64_t position = 0; position < 50; ++position) {
    const SampledToken sampled = Sample(logits, params, {9, 0, position});
    const SampledToken of_divided = Sample(divided, {}, {9, 0, position});
    EXPECT_EQ(sampled.token, of_divided.token);
    EXPECT_TRUE(SameBits(sampled.logprob, of_divided.logprob));
    multiplication_differs +=
        !SameBits(sampled.logprob, KernelLogProb(multiplied, 1, sampled.token));
  }
  EXPECT_GT(multiplication_differs, 0) << "this test could not tell the two apart";
}

struct TruncationCase {
  const char* name;
  SamplingParams params;
};

class TruncationTest : public SamplerTest, public testing::WithParamInterface<TruncationCase> {};

// Logits in steps of 0.25, so that there are ties at every border; probabilities of at least about
// 0.3 % each, so that 6,000 draws meet every token of the kept set. Thresholds sit where no
// rounding of a mass reaches them (checked by CloseCalls).
TEST_P(TruncationTest, DrawsTheOraclesKeptSetWithItsLogProbs) {
  const SamplingParams params = GetParam().params;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<float> logits = RandomLogits(100 + seed, 40, 0.8);
    for (float& x : logits) x = std::round(x * 4) / 4;
    const std::map<int32_t, double> kept = OracleDistribution(logits, params);

    std::set<int32_t> drawn;
    for (uint64_t position = 0; position < 6000; ++position) {
      const SampledToken sampled = Sample(logits, params, {seed, 1, position});
      ASSERT_TRUE(sampled.finite);
      const auto found = kept.find(sampled.token);
      ASSERT_NE(found, kept.end()) << "token " << sampled.token << " was cut off";
      // Over the kept set: the log-prob of any other set is off by at least its smallest share.
      EXPECT_NEAR(sampled.logprob, std::log(found->second), 2e-6);
      EXPECT_TRUE(SameBits(sampled.raw_logprob, KernelLogProb(logits, 1, sampled.token)));
      drawn.insert(sampled.token);
    }
    EXPECT_EQ(drawn.size(), kept.size()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TruncationTest,
                         testing::Values(TruncationCase{"top_k_1", {1.0f, 1.0f, 1, 0.0f}},
                                         TruncationCase{"top_k", {1.0f, 1.0f, 11, 0.0f}},
                                         TruncationCase{"top_k_of_all", {1.0f, 1.0f, 40, 0.0f}},
                                         TruncationCase{"top_p", {1.0f, 0.613f, 0, 0.0f}},
                                         TruncationCase{"tiny_top_p", {1.0f, 1e-6f, 0, 0.0f}},
                                         TruncationCase{"min_p", {1.0f, 1.0f, 0, 0.21f}},
                                         TruncationCase{"min_p_1", {1.0f, 1.0f, 0, 1.0f}},
                                         TruncationCase{"top_k_top_p", {1.0f, 0.613f, 11, 0.0f}},
                                         TruncationCase{"top_k_min_p", {1.0f, 1.0f, 11, 0.41f}},
                                         TruncationCase{"all_three_hot", {1.5f, 0.87f, 25, 0.13f}},
                                         TruncationCase{"all_three_cold",
                                                        {0.7f, 0.87f, 25, 0.13f}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(SamplerTest, TiesAtTheBorderOfTopKGoToTheLowestIds) {
  const std::vector<float> logits = {0, 1, 0, 1, 0, 1, 0, 1};
  SamplingParams params;
  params.top_k = 3;
  std::set<int32_t> drawn;
  for (uint64_t position = 0; position < 200; ++position) {
    drawn.insert(Sample(logits, params, {3, 0, position}).token);
  }
  EXPECT_EQ(drawn, (std::set<int32_t>{1, 3, 5}));
}

TEST_F(SamplerTest, TopPIncludesTheTokenThatCrosses) {
  // Probabilities 0.5, 0.25, 0.25 exactly: 0.5 does not reach 0.6, so the first tie crosses.
  const std::vector<float> logits = {0, std::log(0.5f), std::log(0.5f)};
  SamplingParams params;
  params.top_p = 0.6f;
  std::set<int32_t> drawn;
  for (uint64_t position = 0; position < 200; ++position) {
    drawn.insert(Sample(logits, params, {4, 0, position}).token);
  }
  EXPECT_EQ(drawn, (std::set<int32_t>{0, 1}));
}

TEST_F(SamplerTest, TopPCountsTheMassThatTopKLeft) {
  // Of the whole, the first has 0.37 and top-p 0.6 wants three tokens; of the two that top-k
  // leaves, it has 0.73 and is enough.
  const std::vector<float> logits = {1, 0, 0, 0, 0};
  SamplingParams params;
  params.top_p = 0.6f;
  params.top_k = 2;
  for (uint64_t position = 0; position < 100; ++position) {
    const SampledToken sampled = Sample(logits, params, {4, 0, position});
    EXPECT_EQ(sampled.token, 0);
    EXPECT_TRUE(SameBits(sampled.logprob, 0.0f));
  }
}

// The first seed, under position and sample 0, with a uniform of at least `low`.
uint64_t SeedOfUniformAbove(double low) {
  uint64_t seed = 0;
  while (PhiloxUniform(seed, 0, 0) < low) ++seed;
  return seed;
}

// Rounded probabilities can add up to 1 before the last token. top-p 1 is off and must not cut
// there: a uniform in the last token's share draws it.
TEST_F(SamplerTest, TopPOfOneCutsNothing) {
  std::vector<float> logits;
  std::vector<float> p;
  double head = 0;
  for (uint64_t seed = 0; head < 1; ++seed) {
    ASSERT_LT(seed, 1000u) << "no row whose head adds up to 1";
    logits = RandomLogits(300 + seed, 8, 0.5);
    logits.push_back(-13);
    p = KernelProbabilities(logits);
    head = std::accumulate(p.begin(), p.end() - 1, 0.0);
  }
  ASSERT_GT(p.back(), 5e-8);
  SamplingParams params;
  params.top_k = 9;
  params.min_p = 1e-12f;
  const double last_share = p.back() / (head + p.back());
  const uint64_t seed = SeedOfUniformAbove(1 - last_share / 2);
  EXPECT_EQ(Sample(logits, params, {seed, 0, 0}).token, 8);
}

TEST_F(SamplerTest, TruncationThatKeepsAllGivesTheBitsOfNone) {
  const std::vector<float> logits = RandomLogits(6, 2100, 2);
  SamplingParams all;
  all.top_k = 2100;
  for (uint64_t position = 0; position < 30; ++position) {
    const SampledToken plain = Sample(logits, {}, {6, 2, position});
    const SampledToken kept = Sample(logits, all, {6, 2, position});
    EXPECT_EQ(plain.token, kept.token);
    EXPECT_TRUE(SameBits(plain.logprob, kept.logprob));
  }
}

// Chi-square of `draws` draws against `p`.
double ChiSquare(const std::vector<int64_t>& counts, const std::vector<double>& p, int64_t draws) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = p[i] * static_cast<double>(draws);
    const double off = static_cast<double>(counts[i]) - expected;
    sum += off * off / expected;
  }
  return sum;
}

// The value that chi-square exceeds with the probability that a normal exceeds 4.5: 3.4e-6 (Wilson
// and Hilferty 1931).
double ChiSquareBound(double degrees) {
  const double t = 2 / (9 * degrees);
  return degrees * std::pow(1 - t + 4.5 * std::sqrt(t), 3);
}

TEST_F(SamplerTest, FrequenciesFollowTheDistribution) {
  constexpr int64_t kDraws = 40000;
  const std::vector<float> logits = RandomLogits(7, 24, 1);
  for (const SamplingParams& params : {SamplingParams{}, SamplingParams{0.7f, 1.0f, 0, 0.0f},
                                       SamplingParams{1.3f, 0.9f, 20, 0.02f}}) {
    const std::map<int32_t, double> kept = OracleDistribution(logits, params);
    SamplingParams warmer = params;
    warmer.temperature *= 1.1f;
    const std::map<int32_t, double> wrong = OracleDistribution(logits, warmer);
    std::vector<double> p;
    std::vector<double> p_wrong;
    std::vector<int64_t> counts;
    std::map<int32_t, size_t> place;
    for (const auto& [id, probability] : kept) {
      place[id] = p.size();
      p.push_back(probability);
      p_wrong.push_back(wrong.count(id) > 0 ? wrong.at(id) : 1e-9);
    }
    counts.resize(p.size());
    for (uint64_t i = 0; i < kDraws; ++i) {
      // Positions and samples both: neither may be a poor stream.
      ++counts[place.at(Sample(logits, params, {21, i % 200, i / 200}).token)];
    }
    const double bound = ChiSquareBound(static_cast<double>(p.size() - 1));
    EXPECT_LT(ChiSquare(counts, p, kDraws), bound);
    EXPECT_GT(ChiSquare(counts, p_wrong, kDraws), bound) << "a 10 % warmer row goes unnoticed";
  }
}

TEST_F(SamplerTest, ADrawIsAFunctionOfItsKeyInAnyOrderAndCompany) {
  const std::vector<float> logits = RandomLogits(8, 500, 2);
  const std::vector<float> others = RandomLogits(9, 100, 2);
  std::vector<int32_t> forward;
  for (uint64_t i = 0; i < 64; ++i) forward.push_back(Sample(logits, {}, {1, i % 8, i / 8}).token);
  Sampler another(TestedKernels(), serial_);
  for (uint64_t i = 64; i-- > 0;) {
    (void)another.Sample(others.data(), 100, {1.0f, 0.5f, 7, 0.0f}, {2, i, i});
    EXPECT_EQ(another.Sample(logits.data(), 500, {}, {1, i % 8, i / 8}).token, forward[i]);
  }
}

TEST_F(SamplerTest, ThirtyTwoSamplesAreThirtyTwoStreams) {
  const std::vector<float> logits(1000, 0.0f);
  std::set<std::vector<int32_t>> streams;
  for (uint64_t sample = 0; sample < 32; ++sample) {
    std::vector<int32_t> stream;
    for (uint64_t position = 0; position < 8; ++position) {
      stream.push_back(Sample(logits, {}, {77, sample, position}).token);
    }
    streams.insert(stream);
  }
  EXPECT_EQ(streams.size(), 32u);
  EXPECT_NE(Sample(logits, {}, {77, 0, 0}).token, Sample(logits, {}, {78, 0, 0}).token);
}

TEST_F(SamplerTest, RowsThatAreNotFiniteAreReportedAndNothingIsDrawn) {
  const SamplingParams greedy{0.0f, 1.0f, 0, 0.0f};
  const SamplingParams truncated{1.0f, 0.9f, 5, 0.1f};
  for (const float bad : {kNaN, -kNaN, kInfinity}) {
    for (const size_t at : {0u, 57u, 99u}) {
      std::vector<float> logits = RandomLogits(10, 100, 1);
      logits[at] = bad;
      for (const SamplingParams& params : {SamplingParams{}, greedy, truncated}) {
        const SampledToken sampled = Sample(logits, params, {1, 1, 1});
        EXPECT_FALSE(sampled.finite) << bad << " at " << at;
        EXPECT_EQ(sampled.token, -1);
      }
    }
  }
  EXPECT_FALSE(Sample(std::vector<float>(10, -kInfinity), {}, {1, 1, 1}).finite);
}

TEST_F(SamplerTest, MaskedTokensAreNeverDrawn) {
  std::vector<float> logits = RandomLogits(11, 50, 1);
  for (size_t i = 0; i < 50; i += 2) logits[i] = -kInfinity;
  logits[48] = -200;  // finite, probability 0
  for (const SamplingParams& params : {SamplingParams{}, SamplingParams{1.0f, 0.99f, 0, 0.0f}}) {
    for (uint64_t position = 0; position < 2000; ++position) {
      const SampledToken sampled = Sample(logits, params, {12, 0, position});
      ASSERT_TRUE(sampled.finite);
      EXPECT_EQ(sampled.token % 2, 1);
    }
  }
}

// docs/decisions/0005-scaled-uniform.md. Softmax rows of a large vocabulary do not add up to 1; an
// unscaled uniform in the gap would go to the last token, whatever its probability.
TEST_F(SamplerTest, TheSumsErrorFallsOnNoToken) {
  constexpr int kRows = 32;
  double mean_off = 0;
  std::vector<float> lowest_logits;
  double lowest_sum = 1;
  for (uint64_t row = 0; row < kRows; ++row) {
    std::vector<float> logits = RandomLogits(1000 + row, kLargeVocabSize, 3);
    logits.back() = -300;  // probability 0
    const std::vector<float> p = KernelProbabilities(logits);
    ASSERT_EQ(p.back(), 0);
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    mean_off += std::abs(1 - sum) / kRows;
    if (sum < lowest_sum) {
      lowest_sum = sum;
      lowest_logits = std::move(logits);
    }
  }
  RecordProperty("mean_distance_of_the_sum_from_1", std::to_string(mean_off));
  std::cout << "mean |1 - sum| over " << kRows << " rows of " << kLargeVocabSize
            << " logits: " << mean_off << ", lowest sum 1 - " << 1 - lowest_sum << std::endl;
  EXPECT_LT(mean_off, 2e-6);
  ASSERT_LT(lowest_sum, 1 - 1e-7);

  // A key whose uniform lies in the gap; one seed in some millions does.
  const SampledToken sampled = Sample(lowest_logits, {}, {SeedOfUniformAbove(lowest_sum), 0, 0});
  EXPECT_NE(sampled.token, kLargeVocabSize - 1);
  EXPECT_GT(KernelProbabilities(lowest_logits)[sampled.token], 0);
}

}  // namespace
}  // namespace lockstep
