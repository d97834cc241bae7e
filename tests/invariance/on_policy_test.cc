// Goal: rollouts and training agree bit by bit while weights move (promise P4): what was sampled is
// what training sees, a request keeps the weights it began with, a step's weights serve the next
// request as a cold server would, and CheckParity compares what it says (field notes B1, B4, B7 and
// B12).
// Method: an engine samples and trains; counts are exact, differences are bits.
#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"
#include "tests/invariance/generation_matrix.h"
#include "tests/invariance/training_matrix.h"
#include "tests/support/engine_driver.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::Profile;

constexpr int kPrompts = 5;
constexpr int kSamples = 3;
constexpr int kTokens = 18;

class OnPolicyFixture : public testing::Test {
 protected:
  OnPolicyFixture() {
    const absl::Status written =
        WriteTinyModel(root_.PathOf("tiny"), TinyModelConfig(true), /*seed=*/31);
    LOCKSTEP_CHECK(written.ok()) << written.ToString();
  }

  EngineConfig ConfigOf(Profile profile, int stages) const {
    EngineConfig config = BaselineConfig(root_.PathOf("tiny"));
    config.stages = stages;
    config.profile = profile;
    config.export_root = root_.path();
    return config;
  }

  const TempDirectory root_;
};

class OnPolicyTest : public OnPolicyFixture, public testing::WithParamInterface<Profile> {
 protected:
  EngineConfig Config(int stages = 1) const { return ConfigOf(GetParam(), stages); }
};

std::vector<GenerateRequest> RolloutRequests(float temperature, uint64_t seed) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < kPrompts; ++i) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt = TinyTokens(seed + i, 1 + 33 * i);  // the last crosses 128 positions
    request.num_samples = kSamples;
    request.sampling.temperature = temperature;
    request.seed = seed + i;
    request.max_tokens = kTokens;
    request.ignore_eos = true;
  }
  return requests;
}

// A datum a sample, as an orchestrator would make it; advantages +1 and -0.5 in turn.
std::vector<Datum> DataOf(const std::vector<GenerateRequest>& requests,
                          const std::vector<Generated>& generated) {
  std::vector<Datum> data;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const GeneratedSample& sample : generated[i].samples) {
      std::vector<int32_t> tokens = requests[i].prompt;
      tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
      Datum& datum = data.emplace_back();
      datum.model_input.assign(tokens.begin(), tokens.end() - 1);
      datum.target_tokens.assign(tokens.begin() + 1, tokens.end());
      const size_t prompt = requests[i].prompt.size() - 1;
      datum.mask.assign(prompt, 0.0f);
      datum.mask.resize(datum.model_input.size(), 1.0f);
      datum.logprobs.assign(prompt, 0.0f);
      datum.logprobs.insert(datum.logprobs.end(), sample.logprobs.begin(), sample.logprobs.end());
      datum.advantages.assign(datum.model_input.size(), data.size() % 2 == 0 ? 1.0f : -0.5f);
      datum.sampling.temperature = requests[i].sampling.temperature;
      datum.sampled_under = generated[i].header.weights;
    }
  }
  return data;
}

TrainStepRequest PpoStep(std::vector<Datum> data, uint64_t seq_id) {
  TrainStepRequest request;
  request.call = {"on-policy", seq_id};
  request.data = std::move(data);
  request.loss.kind = LossKind::kPpo;
  request.adamw.learning_rate = 2e-3f;
  request.micro_batch_size = 4;
  return request;
}

// The script's steps [begin, end), whole.
void TakeScriptedSteps(EngineDriver& driver, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    TrainStepRequest request = ScriptedStep(step);
    request.call.seq_id = static_cast<uint64_t>(step) + 1;
    const auto result = driver.TrainStep(request);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->weights.weight_version, static_cast<uint64_t>(step) + 1);
  }
}

// -sum of advantages over sampled tokens: the loss of ppo where every ratio is exactly 1.
double LossAtRatioOne(const std::vector<Datum>& data) {
  double loss = 0;
  for (const Datum& datum : data) {
    for (size_t i = 0; i < datum.mask.size(); ++i) loss -= datum.mask[i] * datum.advantages[i];
  }
  return loss;
}

class TemperatureTest : public OnPolicyFixture,
                        public testing::WithParamInterface<std::tuple<float, int, Profile>> {};

// Field notes B4 and A7: at every temperature the ratio of an on-policy token is exactly 1, step
// after step.
TEST_P(TemperatureTest, RatioIsExactlyOne) {
  const auto [temperature, stages, profile] = GetParam();
  EngineDriver driver(ConfigOf(profile, stages));
  constexpr int64_t kCompared = kPrompts * kSamples * kTokens;
  for (uint64_t step = 1; step <= 4; ++step) {
    const std::vector<GenerateRequest> requests = RolloutRequests(temperature, 100 * step);
    const std::vector<Generated> generated = driver.GenerateTogether(requests);
    for (const Generated& one : generated) {
      ASSERT_TRUE(one.status.ok()) << one.status;
      EXPECT_EQ(one.header.weights.weight_version, step - 1);
    }
    const std::vector<Datum> data = DataOf(requests, generated);
    const auto result = driver.TrainStep(PpoStep(data, step));
    ASSERT_TRUE(result.ok()) << result.status();
    const TrainMetrics& metrics = result->metrics;
    EXPECT_EQ(metrics.token_count, kCompared);
    EXPECT_EQ(metrics.compared_tokens, kCompared);
    EXPECT_EQ(metrics.mismatched_tokens, 0);
    EXPECT_FALSE(metrics.first_mismatch.has_value());
    EXPECT_EQ(metrics.ppo_kl, 0);
    EXPECT_EQ(metrics.k3_kl, 0);
    EXPECT_EQ(metrics.pg_clipfrac, 0);
    EXPECT_EQ(metrics.rollout_probs_diff_max, 0);
    EXPECT_EQ(metrics.rollout_probs_diff_mean, 0);
    EXPECT_EQ(metrics.loss, LossAtRatioOne(data));
    EXPECT_GT(result->optim.grad_norm, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Temperatures, TemperatureTest,
                         testing::Combine(testing::Values(0.5f, 0.7f, 1.0f, 1.5f),
                                          testing::Values(1, 2),
                                          testing::Values(Profile::kFp32, Profile::kBf16)));

// Field note A8: the shortest and the longest there is. A prompt of one token and one token drawn;
// a prompt of all the context but one token; a datum of one position.
TEST_P(OnPolicyTest, ShortestAndLongestSequences) {
  EngineDriver driver(Config(2));
  const int64_t context = TinyModelConfig(true).context_length_max;
  std::vector<GenerateRequest> requests;
  for (const int64_t prompt : {int64_t{1}, int64_t{2}, context - 2, context - 1}) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt = TinyTokens(900 + prompt, prompt);
    request.seed = 900;
    request.max_tokens = static_cast<int32_t>(std::min(context - prompt, int64_t{2}));
    request.ignore_eos = true;
    request.sampling.temperature = 0.7f;
  }
  requests[0].max_tokens = 1;
  const std::vector<Generated> generated = driver.GenerateTogether(requests);
  int64_t sampled = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(generated[i].status.ok()) << generated[i].status;
    ASSERT_EQ(generated[i].samples[0].tokens.size(), static_cast<size_t>(requests[i].max_tokens));
    sampled += requests[i].max_tokens;
  }
  EXPECT_EQ(sampled, 1 + 2 + 2 + 1);
  const auto result = driver.TrainStep(PpoStep(DataOf(requests, generated), 1));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->metrics.compared_tokens, sampled);
  EXPECT_EQ(result->metrics.mismatched_tokens, 0);

  GenerateRequest too_long = requests.back();
  too_long.max_tokens = 2;
  const auto refused =
      driver.engine().Generate(too_long, std::make_shared<GenerateRecorder>(1)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
}

// Data of other weights are not compared: zero of zero, and the ratio says how far they are.
TEST_P(OnPolicyTest, OffPolicyDataAreNotCompared) {
  EngineDriver driver(Config());
  const std::vector<GenerateRequest> requests = RolloutRequests(1, 100);
  const std::vector<Datum> data = DataOf(requests, driver.GenerateTogether(requests));
  ASSERT_TRUE(driver.TrainStep(PpoStep(data, 1)).ok());
  const auto second = driver.TrainStep(PpoStep(data, 2));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->metrics.compared_tokens, 0);
  EXPECT_EQ(second->metrics.mismatched_tokens, 0);
  EXPECT_GT(second->metrics.k3_kl, 0);
  EXPECT_GT(second->metrics.rollout_probs_diff_max, 0);
}

// One wrong bit is found, and named.
TEST_P(OnPolicyTest, OneWrongBitIsFound) {
  EngineDriver driver(Config());
  const std::vector<GenerateRequest> requests = RolloutRequests(0.7f, 100);
  std::vector<Datum> data = DataOf(requests, driver.GenerateTogether(requests));
  const size_t position = data[7].mask.size() - 3;
  const uint32_t bits = std::bit_cast<uint32_t>(data[7].logprobs[position]);
  data[7].logprobs[position] = std::bit_cast<float>(bits ^ 1);
  const auto result = driver.TrainStep(PpoStep(data, 1));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->metrics.mismatched_tokens, 1);
  ASSERT_TRUE(result->metrics.first_mismatch.has_value());
  const TokenMismatch& mismatch = *result->metrics.first_mismatch;
  EXPECT_EQ(mismatch.datum_index, 7);
  EXPECT_EQ(mismatch.position, static_cast<int64_t>(position));
  EXPECT_EQ(mismatch.expected_bits, bits ^ 1);
  EXPECT_EQ(mismatch.actual_bits, bits);
}

// The script's steps [begin, end), queued at once.
class QueuedSteps {
 public:
  // `running`: a request whose tokens are counted at each answer.
  QueuedSteps(EngineDriver& driver, int begin, int end, std::shared_ptr<GenerateRecorder> running)
      : count_(end - begin), running_(std::move(running)) {
    for (int step = begin; step < end; ++step) {
      TrainStepRequest request = ScriptedStep(step);
      request.call.seq_id = static_cast<uint64_t>(step) + 1;
      const absl::Status posted =
          driver.engine().TrainStep(request, [this](const absl::StatusOr<TrainStepResult>& result) {
            LOCKSTEP_CHECK(result.ok()) << result.status().ToString();
            MutexLock lock(mu_);
            tokens_at_answers_.push_back(running_->token_count());
            answered_.SignalAll();
          });
      LOCKSTEP_CHECK(posted.ok()) << posted.ToString();
    }
  }

  // Waits for all answers: tokens of the running request at each.
  std::vector<int64_t> Wait() {
    MutexLock lock(mu_);
    while (tokens_at_answers_.size() < count_) answered_.Wait(mu_);
    return tokens_at_answers_;
  }

 private:
  const size_t count_;
  const std::shared_ptr<GenerateRecorder> running_;
  CondVar answered_;
  Mutex mu_;
  std::vector<int64_t> tokens_at_answers_ ABSL_GUARDED_BY(mu_);
};

// Requests that run while steps happen keep the weights they began with, and go on meanwhile.
TEST_P(OnPolicyTest, RunningRequestsKeepTheirWeights) {
  for (const int stages : {1, 2}) {
    GenerateRequest request = RolloutRequests(1, 100)[2];
    request.max_tokens = 40;
    EngineDriver undisturbed(Config(stages));
    const Generated at_root = undisturbed.Generate(request);
    TakeScriptedSteps(undisturbed, 0, 3);
    const Generated at_three = undisturbed.Generate(request);
    ASSERT_NE(at_root.samples[0].tokens, at_three.samples[0].tokens);

    // While the loop is held a request comes first and steps behind it, so that every step is taken
    // in the middle of the request. The two requests are under two versions and take turns.
    EngineDriver driver(Config(stages));
    std::vector<std::shared_ptr<GenerateRecorder>> recorders;
    for (const auto& [begin, end] : {std::pair{0, 3}, std::pair{3, 7}}) {
      HeldLoop held(driver);
      recorders.push_back(driver.StartGenerate(request));
      QueuedSteps steps(driver, begin, end, recorders.back());
      held.Release();
      const std::vector<int64_t> tokens = steps.Wait();
      EXPECT_GT(tokens.back(), tokens.front()) << "training froze generation";
      EXPECT_LT(tokens.back(), kSamples * request.max_tokens);
    }
    EXPECT_EQ(driver.engine().Info().weights.weight_version, 7u);

    for (size_t i = 0; i < recorders.size(); ++i) {
      const Generated& expected = i == 0 ? at_root : at_three;
      const Generated generated = recorders[i]->Wait();
      ASSERT_TRUE(generated.status.ok()) << generated.status;
      EXPECT_TRUE(generated.header.weights.SameBits(expected.header.weights));
      BitComparison comparison;
      for (int s = 0; s < kSamples; ++s) {
        comparison.Equal("tokens", generated.samples[s].tokens, expected.samples[s].tokens);
        comparison.Floats("logprobs", generated.samples[s].logprobs, expected.samples[s].logprobs);
      }
      EXPECT_TRUE(comparison.Same());
    }
  }
}

// Field notes B7: after steps the same engine serves what a cold one does on the exported weights.
TEST_P(OnPolicyTest, AColdServerOnTheExportedWeightsGivesTheSame) {
  using Arrival = GenerationVariant::Arrival;
  for (const int stages : {1, 2}) {
    EngineDriver driver(Config(stages));
    const GenerationRun before = RunGeneration(driver, Arrival::kTogether);
    TakeScriptedSteps(driver, 0, 3);
    const GenerationRun after = RunGeneration(driver, Arrival::kTogether);
    EXPECT_GT(Compare(after, before).differing(), 1000);

    const std::string name = absl::StrCat("exported-", stages);
    const auto exported = driver.ExportModel(name);
    ASSERT_TRUE(exported.ok()) << exported.status();
    EngineConfig config = Config();
    config.model_directory = exported->path;
    EngineDriver cold(config);
    EXPECT_EQ(cold.engine().Info().weights_digest, driver.engine().Info().weights_digest);
    EXPECT_TRUE(Compare(RunGeneration(cold, Arrival::kOneByOne), after).Same());
  }
}

// The matrix holds under weights that training made, too.
TEST_P(OnPolicyTest, TheMatrixHoldsAfterSteps) {
  std::vector<GenerationRun> runs;
  for (const GenerationVariant& variant : GenerationVariants(GetParam())) {
    if (variant.name != "baseline" && variant.name != "all_at_once") continue;
    EngineConfig config = variant.config;
    config.model_directory = root_.PathOf("tiny");
    EngineDriver driver(config);
    TakeScriptedSteps(driver, 0, 3);
    runs.push_back(RunGeneration(driver, variant.arrival));
  }
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(Compare(runs[1], runs[0]).Same());
}

TEST_P(OnPolicyTest, CheckParityComparesEveryPath) {
  ParityRequest request;
  request.num_prompts = 5;
  request.num_samples = 3;
  request.max_tokens = 20;
  request.seed = 8;
  for (const int stages : {1, 2}) {
    EngineDriver driver(Config(stages));
    std::string digest_before;
    for (const float temperature : {1.0f, 0.7f}) {
      request.temperature = temperature;
      const auto result = driver.CheckParity(request);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->passed());
      EXPECT_EQ(result->comparisons.size(), 10u);
      for (const ParityComparison& comparison : result->comparisons) {
        EXPECT_EQ(comparison.compared_tokens, 5 * 3 * 20) << comparison.name;
        EXPECT_EQ(comparison.mismatched_tokens, 0) << comparison.name;
        EXPECT_EQ(comparison.k3_kl, 0) << comparison.name;
      }
      EXPECT_EQ(result->weights_digest, driver.engine().Info().weights_digest);
      EXPECT_NE(result->weights_digest, digest_before);
      digest_before = result->weights_digest;
      TakeScriptedSteps(driver, static_cast<int>(result->weights.weight_version),
                        static_cast<int>(result->weights.weight_version) + 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, OnPolicyTest, testing::Values(Profile::kFp32, Profile::kBf16),
                         [](const auto& info) {
                           return std::string(kernels::ProfileName(info.param));
                         });

}  // namespace
}  // namespace lockstep
