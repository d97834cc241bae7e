// Goal: every check of the invariance matrix can fail. A check without a negative control is not a
// check.
// Method: the same comparisons as tests/invariance, with a fault planted in the engine. Forward
// faults must turn a comparison of generation runs and CheckParity red, a stale weight parity after
// a step, backward and optimizer faults the digests of training. Two equal runs with the fault are
// green: what is found is what the fault depends on, not noise.
#include "tests/faults/planted_faults.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "gtest/gtest.h"
#include "tests/invariance/generation_matrix.h"
#include "tests/invariance/training_matrix.h"
#include "tests/support/engine_driver.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

constexpr int kSteps = 3;

const std::string& ModelDirectory() {
  static const TempDirectory* const kRoot = new TempDirectory;
  static const std::string* const kDirectory = [] {
    auto* path = new std::string(kRoot->PathOf("tiny"));
    const absl::Status written = WriteTinyModel(*path, TinyModelConfig(true), /*seed=*/21);
    LOCKSTEP_CHECK(written.ok()) << written.ToString();
    return path;
  }();
  return *kDirectory;
}

template <typename Variant>
Variant Find(const std::vector<Variant>& variants, const std::string& name) {
  const auto found = std::find_if(variants.begin(), variants.end(),
                                  [&](const Variant& variant) { return variant.name == name; });
  LOCKSTEP_CHECK(found != variants.end()) << name;
  return *found;
}

GenerationRun Generation(PlantedFault fault, const std::string& variant) {
  return RunGeneration(Find(GenerationVariants(), variant), ModelDirectory(), Plant(fault));
}

std::vector<StepTrace> Training(PlantedFault fault, const std::string& variant) {
  return RunTraining(Find(TrainingVariants(), variant), kSteps, ModelDirectory(), Plant(fault));
}

ParityRequest SmallParity() {
  ParityRequest request;
  request.num_prompts = 4;
  request.num_samples = 2;
  request.max_tokens = 20;
  request.seed = 8;
  return request;
}

ParityResult CheckParity(EngineDriver& driver) {
  const auto result = driver.CheckParity(SmallParity());
  LOCKSTEP_CHECK(result.ok()) << result.status().ToString();
  return *result;
}

// Red as CI wants to see it: a first mismatch with two different bit patterns on every red row.
void ExpectRed(const ParityResult& result, const std::vector<std::string>& red_rows) {
  EXPECT_FALSE(result.passed());
  EXPECT_GT(result.mismatched_tokens(), 0);
  for (const ParityComparison& comparison : result.comparisons) {
    EXPECT_GT(comparison.compared_tokens, 0) << comparison.name;
    EXPECT_EQ(comparison.mismatched_tokens > 0, comparison.first_mismatch.has_value());
    if (comparison.first_mismatch.has_value()) {
      EXPECT_NE(comparison.first_mismatch->expected_bits, comparison.first_mismatch->actual_bits)
          << comparison.name;
    }
  }
  for (const std::string& row : red_rows) {
    EXPECT_GT(Find(result.comparisons, row).mismatched_tokens, 0) << row;
  }
}

struct ForwardFault {
  PlantedFault fault;
  std::string variant;            // of generation, compared with the baseline
  std::vector<std::string> rows;  // of CheckParity
};

class ForwardFaultTest : public testing::TestWithParam<ForwardFault> {};

TEST_P(ForwardFaultTest, TurnsTheGenerationMatrixRed) {
  const ForwardFault& planted = GetParam();
  const GenerationRun baseline = Generation(planted.fault, "baseline");
  EXPECT_TRUE(Compare(Generation(planted.fault, "baseline"), baseline).Same());
  EXPECT_GT(Compare(Generation(planted.fault, planted.variant), baseline).differing(), 0);
}

TEST_P(ForwardFaultTest, TurnsParityRed) {
  EngineConfig config = BaselineConfig(ModelDirectory());
  for (const int stages : {1, 2}) {
    config.stages = stages;
    EngineDriver driver(config, Plant(GetParam().fault));
    ExpectRed(CheckParity(driver), GetParam().rows);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, ForwardFaultTest,
    testing::Values(
        ForwardFault{PlantedFault::kSplitKSmallBatch, "together", {"generate_alone_chunk_1"}},
        ForwardFault{PlantedFault::kExtraRoundingDecode,
                     "chunk_1",
                     {"score", "score_chunk_5", "training_packed", "training_alone"}},
        ForwardFault{PlantedFault::kStalePage,
                     "together",
                     {"generate_alone_chunk_1", "score_alone", "training_alone"}}),
    [](const auto& info) { return std::string(Name(info.param.fault)); });

// Sampling and scoring take one row at a time; training's many rows are where it shows.
TEST(LogProbFaultTest, TurnsParityAndRunTimeParityRed) {
  EngineDriver driver(BaselineConfig(ModelDirectory()), Plant(PlantedFault::kLogProbOffByOne));
  ExpectRed(CheckParity(driver), {"training_packed", "training_micro_batch_3", "training_alone"});
}

TEST(LogProbFaultTest, TurnsTheTrainingMatrixRed) {
  // A datum of one token is alone in its call of one row, or beside others.
  EXPECT_GT(Compare(Training(PlantedFault::kLogProbOffByOne, "micro_batch_1"),
                    Training(PlantedFault::kLogProbOffByOne, "baseline"))
                .differing(),
            0);
}

// A rollout of one request, as a datum.
TrainStepRequest OnPolicyStep(EngineDriver& driver, uint64_t seq_id) {
  GenerateRequest request;
  request.prompt = TinyTokens(3, 12);
  request.seed = 5;
  request.max_tokens = 24;
  request.ignore_eos = true;
  const Generated generated = driver.Generate(request);
  LOCKSTEP_CHECK(generated.status.ok()) << generated.status.ToString();
  std::vector<int32_t> tokens = request.prompt;
  const GeneratedSample& sample = generated.samples.front();
  tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
  Datum datum;
  datum.model_input.assign(tokens.begin(), tokens.end() - 1);
  datum.target_tokens.assign(tokens.begin() + 1, tokens.end());
  datum.mask.assign(request.prompt.size() - 1, 0.0f);
  datum.logprobs.assign(request.prompt.size() - 1, 0.0f);
  datum.mask.resize(datum.model_input.size(), 1.0f);
  datum.logprobs.insert(datum.logprobs.end(), sample.logprobs.begin(), sample.logprobs.end());
  datum.advantages.assign(datum.model_input.size(), 1.0f);
  datum.sampled_under = generated.header.weights;
  TrainStepRequest step;
  step.call = {"on-policy", seq_id};
  step.data = {datum};
  step.loss.kind = LossKind::kPpo;
  step.adamw.learning_rate = 5e-3f;
  return step;
}

TEST(StaleWeightTest, TurnsParityRedAfterAStep) {
  EngineDriver driver(BaselineConfig(ModelDirectory()), Plant(PlantedFault::kStaleWeight));
  EXPECT_TRUE(CheckParity(driver).passed()) << "before a step there is nothing stale";
  const auto first = driver.TrainStep(OnPolicyStep(driver, 1));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->metrics.compared_tokens, 24);
  EXPECT_EQ(first->metrics.mismatched_tokens, 0);

  ExpectRed(CheckParity(driver), {"generate_alone_chunk_1"});
  const auto second = driver.TrainStep(OnPolicyStep(driver, 2));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->metrics.compared_tokens, 24);
  EXPECT_GT(second->metrics.mismatched_tokens, 0);
  ASSERT_TRUE(second->metrics.first_mismatch.has_value());
  EXPECT_NE(second->metrics.first_mismatch->expected_bits,
            second->metrics.first_mismatch->actual_bits);
}

// The data of a step have the same log-probs in its first forward; what moves is what is learned.
void ExpectDigestsDiffer(PlantedFault fault, const std::string& variant) {
  const std::vector<StepTrace> baseline = Training(fault, "baseline");
  EXPECT_TRUE(Compare(Training(fault, "baseline"), baseline).Same());
  const std::vector<StepTrace> other = Training(fault, variant);
  BitComparison first_forward;
  for (size_t i = 0; i < baseline[0].logprobs.size(); ++i) {
    first_forward.Floats("logprobs", other[0].logprobs[i], baseline[0].logprobs[i]);
  }
  EXPECT_TRUE(first_forward.Same());
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NE(other[step].weights_digest, baseline[step].weights_digest) << step;
    EXPECT_NE(other[step].moments_digest, baseline[step].moments_digest) << step;
  }
}

TEST(BackwardFaultTest, GradOrderTurnsDigestsRedOverMicroBatches) {
  for (const char* variant : {"micro_batch_1", "micro_batch_3", "calls_of_1"}) {
    ExpectDigestsDiffer(PlantedFault::kGradOrder, variant);
  }
}

TEST(OptimizerFaultTest, SkippedTailTurnsDigestsRedOverThreadsAndStages) {
  ExpectDigestsDiffer(PlantedFault::kOptimizerSkipsTail, "threads_2");
  // Two stages with three threads: the first has two.
  TrainingVariant variant = Find(TrainingVariants(), "stages_2");
  variant.config.threads = 3;
  EXPECT_GT(Compare(RunTraining(variant, kSteps, ModelDirectory(),
                                Plant(PlantedFault::kOptimizerSkipsTail)),
                    Training(PlantedFault::kOptimizerSkipsTail, "baseline"))
                .differing(),
            0);
}

TEST(PlantedFaultNameTest, ParsesEveryNameAndNoOther) {
  for (const PlantedFault fault : AllPlantedFaults()) {
    const auto parsed = ParsePlantedFault(Name(fault));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, fault);
  }
  EXPECT_FALSE(ParsePlantedFault("none").ok());
}

}  // namespace
}  // namespace lockstep
