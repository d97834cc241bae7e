// Goal: every path is compared on every token, a difference of one bit on any path is found and
// named, nothing compared is no pass, and the weights are unpinned whatever happens. Method: paths
// that compute log-probs from a formula, with one fault at a time.
#include "core/engine/parity_checker.h"

#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <optional>
#include <set>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float OneBitOff(float value) { return std::nextafter(value, 0.0f); }

// What the formula gives token `position` of `tokens`.
float LogProb(const std::vector<int32_t>& tokens, size_t position, float temperature) {
  int32_t sum = 1;
  for (size_t i = 0; i <= position; ++i) sum = (31 * sum + tokens[i]) % 1009;
  return -static_cast<float>(sum + 1) / (257 * temperature);
}

// What went wrong, and what was seen; shared with the test, which looks while no check runs.
struct Script {
  absl::Status pin;
  absl::Status generate;
  absl::Status score;
  absl::Status training;
  std::optional<int64_t> faulty_generate_chunk;
  std::optional<int64_t> faulty_score_chunk;
  bool faulty_score_alone = false;
  std::optional<int64_t> faulty_micro_batch_size;
  bool other_tokens_alone = false;
  bool shorter_alone = false;
  bool draws_nothing = false;

  int pins = 0;
  int unpins = 0;
  std::vector<GenerateRequest> requests;  // of the first Generate
  std::promise<void>* started = nullptr;
  std::future<void> go;
};

class ScriptedPaths final : public ParityPaths {
 public:
  explicit ScriptedPaths(Script* script) : script_(*script) {}

  absl::StatusOr<Pinned> Pin() override {
    if (!script_.pin.ok()) return script_.pin;
    ++script_.pins;
    Pinned pinned;
    pinned.weights.weight_version = 3;
    pinned.weights_digest = "digest";
    return pinned;
  }
  void Unpin(const WeightsState& weights) override {
    EXPECT_EQ(weights.weight_version, 3u);
    ++script_.unpins;
  }

  absl::StatusOr<std::vector<Rollout>> Generate(const std::vector<GenerateRequest>& requests,
                                                int64_t chunk_max, const WeightsState&) override {
    if (script_.started != nullptr) std::exchange(script_.started, nullptr)->set_value();
    if (script_.go.valid()) script_.go.get();
    if (!script_.generate.ok()) return script_.generate;
    if (script_.requests.empty()) script_.requests = requests;
    const bool alone = chunk_max == 1;
    std::vector<Rollout> rollouts;
    for (const GenerateRequest& request : requests) {
      for (int32_t sample = 0; sample < request.num_samples; ++sample) {
        Rollout& rollout = rollouts.emplace_back();
        rollout.tokens = request.prompt;
        rollout.prompt_length = static_cast<int64_t>(request.prompt.size());
        if (script_.draws_nothing) continue;
        for (int32_t i = 0; i < request.max_tokens; ++i) {
          const bool last = i + 1 == request.max_tokens;
          if (last && alone && script_.shorter_alone) break;
          rollout.tokens.push_back(sample + i + (last && alone && script_.other_tokens_alone));
          rollout.logprobs.push_back(
              LogProb(rollout.tokens, rollout.tokens.size() - 1, request.sampling.temperature));
        }
        if (script_.faulty_generate_chunk == chunk_max) {
          rollout.logprobs.back() = OneBitOff(rollout.logprobs.back());
        }
      }
    }
    return rollouts;
  }

  absl::StatusOr<ScoreResult> Score(const ScoreRequest& request, int64_t chunk_max,
                                    const WeightsState&) override {
    if (!script_.score.ok()) return script_.score;
    ScoreResult result;
    for (const ScoreSequence& sequence : request.sequences) {
      SequenceScore& score = result.scores.emplace_back();
      score.logprobs.push_back(std::numeric_limits<float>::quiet_NaN());
      for (size_t i = 1; i < sequence.tokens.size(); ++i) {
        score.logprobs.push_back(LogProb(sequence.tokens, i, sequence.temperature));
      }
    }
    const bool alone = request.sequences.size() == 1;
    const bool faulty =
        alone ? script_.faulty_score_alone : script_.faulty_score_chunk == chunk_max;
    if (faulty) {
      std::vector<float>& last = result.scores.back().logprobs;
      last.back() = OneBitOff(last.back());
    }
    return result;
  }

  absl::StatusOr<std::vector<std::vector<float>>> TrainingForward(const std::vector<Datum>& data,
                                                                  int64_t micro_batch_size,
                                                                  const WeightsState&) override {
    if (!script_.training.ok()) return script_.training;
    std::vector<std::vector<float>> logprobs;
    for (const Datum& datum : data) {
      std::vector<int32_t> tokens = datum.model_input;
      if (!tokens.empty()) tokens.push_back(datum.target_tokens.back());
      std::vector<float>& row = logprobs.emplace_back();
      for (size_t i = 0; i < datum.model_input.size(); ++i) {
        EXPECT_EQ(datum.target_tokens[i], tokens[i + 1]);
        row.push_back(datum.mask[i] == 0 ? std::numeric_limits<float>::quiet_NaN()
                                         : LogProb(tokens, i + 1, datum.sampling.temperature));
      }
    }
    if (script_.faulty_micro_batch_size == micro_batch_size) {
      logprobs[1].back() = OneBitOff(logprobs[1].back());
    }
    return logprobs;
  }

 private:
  Script& script_;
};

RequestLimits Limits() {
  RequestLimits limits;
  limits.vocab_size = 67;
  limits.context_length_max = 512;
  limits.num_samples_max = 8;
  limits.data_max = 64;
  return limits;
}

ParityRequest MakeRequest() {
  ParityRequest request;
  request.prompts = {{5}, {6, 7, 8}, {9, 10}};
  request.num_samples = 2;
  request.max_tokens = 4;
  request.temperature = 0.7f;
  request.seed = 40;
  return request;
}

class ParityCheckerTest : public testing::Test {
 protected:
  absl::StatusOr<ParityResult> Check(const ParityRequest& request = MakeRequest()) {
    std::promise<absl::StatusOr<ParityResult>> answer;
    const absl::Status posted = checker_.Post(
        request, [&](absl::StatusOr<ParityResult> result) { answer.set_value(std::move(result)); });
    if (!posted.ok()) return posted;
    return answer.get_future().get();
  }

  // The one comparison that must fail, and how often.
  void ExpectMismatch(const std::string& name, int64_t count) {
    const absl::StatusOr<ParityResult> result = Check();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->passed());
    EXPECT_EQ(result->mismatched_tokens(), count);
    for (const ParityComparison& row : result->comparisons) {
      EXPECT_EQ(row.mismatched_tokens, row.name == name ? count : 0) << row.name;
      EXPECT_EQ(row.first_mismatch.has_value(), row.name == name) << row.name;
    }
    EXPECT_EQ(script_.unpins, 1);
  }

  Script script_;
  ParityChecker checker_{std::make_unique<ScriptedPaths>(&script_), Limits()};
};

TEST_F(ParityCheckerTest, EqualBitsOnEveryPathPass) {
  const absl::StatusOr<ParityResult> result = Check();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->passed());
  std::vector<std::string> names;
  for (const ParityComparison& row : result->comparisons) {
    names.push_back(row.name);
    EXPECT_EQ(row.compared_tokens, 3 * 2 * 4) << row.name;
    EXPECT_EQ(row.k3_kl, 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"generate_alone_chunk_1", "score", "score_chunk_1",
                                             "score_chunk_5", "score_chunk_16", "score_chunk_64",
                                             "score_alone", "training_packed",
                                             "training_micro_batch_3", "training_alone"}));
  EXPECT_EQ(result->compared_tokens(), 10 * 24);
  EXPECT_EQ(result->weights.weight_version, 3u);
  EXPECT_EQ(result->weights_digest, "digest");
  EXPECT_EQ(script_.pins, 1);
  EXPECT_EQ(script_.unpins, 1);
}

TEST_F(ParityCheckerTest, OneBitInGenerationAlone) {
  script_.faulty_generate_chunk = 1;
  ExpectMismatch("generate_alone_chunk_1", 6);
}

TEST_F(ParityCheckerTest, OneBitInOneChunkSize) {
  script_.faulty_score_chunk = 16;
  ExpectMismatch("score_chunk_16", 1);
}

TEST_F(ParityCheckerTest, OneBitInScoringAlone) {
  script_.faulty_score_alone = true;
  ExpectMismatch("score_alone", 6);
}

TEST_F(ParityCheckerTest, OneBitInOneMicroBatchSize) {
  script_.faulty_micro_batch_size = 3;
  ExpectMismatch("training_micro_batch_3", 1);
}

TEST_F(ParityCheckerTest, AnotherTokenIsAMismatch) {
  script_.other_tokens_alone = true;
  ExpectMismatch("generate_alone_chunk_1", 6);
}

TEST_F(ParityCheckerTest, AMissingTokenIsAMismatch) {
  script_.shorter_alone = true;
  ExpectMismatch("generate_alone_chunk_1", 6);
}

TEST_F(ParityCheckerTest, TheFirstMismatchNamesItsPlaceAndBothBitPatterns) {
  script_.faulty_micro_batch_size = 6;  // all of them: "training_packed"
  const absl::StatusOr<ParityResult> result = Check();
  ASSERT_TRUE(result.ok());
  for (const ParityComparison& row : result->comparisons) {
    if (row.name != "training_packed") continue;
    ASSERT_TRUE(row.first_mismatch.has_value());
    // The last token of the second rollout: sample 1 behind a prompt of one token.
    EXPECT_EQ(row.first_mismatch->datum_index, 1);
    EXPECT_EQ(row.first_mismatch->position, 4);
    const float expected = LogProb({5, 1, 2, 3, 4}, 4, 0.7f);
    EXPECT_EQ(row.first_mismatch->expected_bits, Bits(expected));
    EXPECT_EQ(row.first_mismatch->actual_bits, Bits(OneBitOff(expected)));
    EXPECT_GE(row.k3_kl, 0);
    return;
  }
  FAIL() << "no such comparison";
}

TEST_F(ParityCheckerTest, NothingComparedIsNoPass) {
  script_.draws_nothing = true;
  const absl::StatusOr<ParityResult> result = Check();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->compared_tokens(), 0);
  EXPECT_FALSE(result->passed());
}

TEST_F(ParityCheckerTest, ErrorsOfAPathEndTheCheckAndUnpin) {
  for (absl::Status* status : {&script_.generate, &script_.score, &script_.training}) {
    *status = absl::UnavailableError("gone");
    EXPECT_EQ(Check().status(), absl::UnavailableError("gone"));
    *status = absl::OkStatus();
  }
  EXPECT_EQ(script_.pins, 3);
  EXPECT_EQ(script_.unpins, 3);
  EXPECT_TRUE(Check()->passed());
}

TEST_F(ParityCheckerTest, WhatWasNotPinnedIsNotUnpinned) {
  script_.pin = absl::UnavailableError("gone");
  EXPECT_EQ(Check().status(), absl::UnavailableError("gone"));
  EXPECT_EQ(script_.unpins, 0);
}

TEST_F(ParityCheckerTest, DrawnPromptsAreValidAndOfManyLengths) {
  ParityRequest request = MakeRequest();
  request.prompts.clear();
  request.num_prompts = 30;
  ASSERT_TRUE(Check(request)->passed());
  ASSERT_EQ(script_.requests.size(), 30u);
  EXPECT_EQ(script_.requests[0].prompt.size(), 1u);
  std::set<size_t> lengths;
  std::set<uint64_t> seeds;
  for (const GenerateRequest& generate : script_.requests) {
    EXPECT_TRUE(Validate(generate, Limits()).ok()) << Validate(generate, Limits());
    lengths.insert(generate.prompt.size());
    seeds.insert(*generate.seed);
    EXPECT_EQ(generate.num_samples, 2);
    EXPECT_EQ(generate.sampling.temperature, 0.7f);
    EXPECT_TRUE(generate.ignore_eos);
    EXPECT_LE(static_cast<int64_t>(generate.prompt.size()) + generate.max_tokens - 1,
              ParityChecker::PositionsMax(request, Limits()));
  }
  EXPECT_GE(lengths.size(), 10u);
  EXPECT_EQ(seeds.size(), 30u);
}

TEST(ParityCheckerPositionsTest, AreThoseOfTheLongestSequence) {
  ParityRequest request = MakeRequest();
  EXPECT_EQ(ParityChecker::PositionsMax(request, Limits()), 3 + 4 - 1);
  request.prompts.clear();
  EXPECT_EQ(ParityChecker::PositionsMax(request, Limits()), 24 + 4 - 1);
  request.max_tokens = 500;  // leaves room for prompts of 12
  EXPECT_EQ(ParityChecker::PositionsMax(request, Limits()), 12 + 500 - 1);
}

TEST_F(ParityCheckerTest, ChecksThatWaitAreBoundedAndAllAnswered) {
  std::promise<void> started;
  std::promise<void> go;
  script_.started = &started;
  script_.go = go.get_future();
  std::promise<void> all;
  std::atomic<int> passed{0};
  const auto post = [&] {
    return checker_.Post(MakeRequest(), [&](absl::StatusOr<ParityResult> result) {
      if (result.ok() && result->passed() && ++passed == 1 + ParityChecker::kChecksMax) {
        all.set_value();
      }
    });
  };
  ASSERT_TRUE(post().ok());
  started.get_future().wait();  // out of the line, at work
  for (int i = 0; i < ParityChecker::kChecksMax; ++i) ASSERT_TRUE(post().ok());
  const absl::Status refused = post();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("16"), std::string::npos) << refused;
  go.set_value();
  all.get_future().wait();
}

}  // namespace
}  // namespace lockstep
