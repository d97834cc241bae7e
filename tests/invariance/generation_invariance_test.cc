// Goal: what a request gets depends on the weights and the request alone (promises P1 and P3):
// tokens, log-probs and scores over company, place, arrival order, chunk size, page size, limits,
// stages, threads and backend (field notes B6 and B8).
// Method: every variant serves the same requests with an engine of its own and is compared with the
// baseline, one request at a time on one thread, bit by bit. tests/faults plants what must turn the
// comparison red.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "gtest/gtest.h"
#include "tests/invariance/generation_matrix.h"
#include "tests/support/engine_driver.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::Profile;

constexpr uint64_t kWeightsSeed = 21;

const std::string& ModelDirectory() {
  static const TempDirectory* const kRoot = new TempDirectory;
  static const std::string* const kDirectory = [] {
    auto* path = new std::string(kRoot->PathOf("tiny"));
    const absl::Status written =
        WriteTinyModel(*path, TinyModelConfig(true, kMatrixLayers), kWeightsSeed);
    LOCKSTEP_CHECK(written.ok()) << written.ToString();
    return path;
  }();
  return *kDirectory;
}

const GenerationRun& Baseline(Profile profile = Profile::kFp32) {
  static auto* const kRuns = new std::map<Profile, GenerationRun>;
  const auto found = kRuns->find(profile);
  if (found != kRuns->end()) return found->second;
  const GenerationVariant baseline = GenerationVariants(profile).front();
  return kRuns->emplace(profile, RunGeneration(baseline, ModelDirectory())).first->second;
}

class GenerationInvarianceTest : public testing::TestWithParam<GenerationVariant> {};

TEST_P(GenerationInvarianceTest, SameBitsAsTheBaseline) {
  const EngineConfig& config = GetParam().config;
  LOCKSTEP_SKIP_UNLESS_SUPPORTED(config.instruction_set);
  const BitComparison comparison =
      Compare(RunGeneration(GetParam(), ModelDirectory()), Baseline(config.profile));
  EXPECT_TRUE(comparison.Same());
  EXPECT_GT(comparison.compared(), 3 * 18 * 20);  // three values of each of 18 x 20 tokens
}

INSTANTIATE_TEST_SUITE_P(Fp32, GenerationInvarianceTest,
                         testing::ValuesIn(GenerationVariants(Profile::kFp32)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Bf16, GenerationInvarianceTest,
                         testing::ValuesIn(GenerationVariants(Profile::kBf16)),
                         [](const auto& info) { return info.param.name; });

TEST(GenerationBaselineTest, ProfilesDiffer) {
  EXPECT_FALSE(Compare(Baseline(Profile::kBf16), Baseline(Profile::kFp32)).Same());
}

TEST(GenerationBaselineTest, IsWorthComparing) {
  std::set<std::vector<int32_t>> streams;
  int64_t tokens = 0;
  for (const Generated& generated : Baseline().generated) {
    for (const GeneratedSample& sample : generated.samples) {
      streams.insert(sample.tokens);
      tokens += static_cast<int64_t>(sample.tokens.size());
      EXPECT_EQ(sample.tokens.size(), sample.logprobs.size());
      EXPECT_EQ(sample.tokens.size(), sample.raw_logprobs.size());
    }
  }
  EXPECT_EQ(streams.size(), 17u) << "18 samples, of which the two greedy ones are the same";
  EXPECT_GT(tokens, 17 * 20);
}

// A sampled token's log-probs are those that Score gives the same text.
TEST(GenerationBaselineTest, SampledEqualsScored) {
  const std::vector<GenerateRequest> requests = MatrixRequests();
  BitComparison comparison;
  size_t index = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const GeneratedSample& sample : Baseline().generated[i].samples) {
      const SequenceScore& score = Baseline().scores[index++];
      const auto drawn = [&](const std::vector<float>& values) {
        return std::vector<float>(values.begin() + static_cast<int64_t>(requests[i].prompt.size()),
                                  values.end());
      };
      comparison.Floats("raw_logprobs", drawn(score.raw_logprobs), sample.raw_logprobs);
      const SamplingParams& sampling = requests[i].sampling;
      if (sampling.truncates() || sampling.temperature == 0) continue;
      comparison.Floats("logprobs", drawn(score.logprobs), sample.logprobs);
    }
  }
  EXPECT_TRUE(comparison.Same());
}

// Requests that leave early, and pages that change hands with what they held, show in nobody else.
TEST(GenerationCompanyTest, CancelledCompanyChangesNothing) {
  const std::vector<GenerateRequest> requests = MatrixRequests();
  EngineConfig config = BaselineConfig(ModelDirectory());
  config.running_sequences_max = 8;
  EngineDriver driver(config);
  BitComparison comparison;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<GenerateRecorder>> kept;
    std::vector<std::pair<Engine::RequestHandle, std::shared_ptr<GenerateRecorder>>> cancelled;
    for (size_t i = 0; i < requests.size(); ++i) {
      GenerateRequest company = requests[i];
      company.max_tokens = 300;
      company.num_samples = 1;
      const auto recorder = std::make_shared<GenerateRecorder>(1);
      const auto handle = driver.engine().Generate(company, recorder);
      ASSERT_TRUE(handle.ok()) << handle.status();
      cancelled.emplace_back(*handle, recorder);
      kept.push_back(driver.StartGenerate(requests[i]));
    }
    for (const auto& [handle, recorder] : cancelled) {
      recorder->WaitForStart();
      driver.engine().Cancel(handle);
    }
    for (const auto& [handle, recorder] : cancelled) recorder->Wait();
    for (size_t i = 0; i < requests.size(); ++i) {
      const Generated generated = kept[i]->Wait();
      ASSERT_TRUE(generated.status.ok()) << generated.status;
      for (size_t s = 0; s < generated.samples.size(); ++s) {
        const GeneratedSample& expected = Baseline().generated[i].samples[s];
        comparison.Equal("tokens", generated.samples[s].tokens, expected.tokens);
        comparison.Floats("logprobs", generated.samples[s].logprobs, expected.logprobs);
      }
    }
  }
  EXPECT_TRUE(comparison.Same());
}

// Field notes B6: sample i is the same for any number of samples, and no two are clones.
TEST(GenerationSamplesTest, EightOfThirtyTwo) {
  EngineDriver driver(BaselineConfig(ModelDirectory()));
  GenerateRequest request;
  request.prompt = TinyTokens(3, 12);
  request.seed = 99;
  request.max_tokens = 16;
  request.ignore_eos = true;
  request.num_samples = 8;
  const Generated eight = driver.Generate(request);
  request.num_samples = 32;
  const Generated all = driver.Generate(request);
  ASSERT_TRUE(eight.status.ok() && all.status.ok());

  BitComparison comparison;
  for (size_t i = 0; i < 8; ++i) {
    comparison.Equal("tokens", all.samples[i].tokens, eight.samples[i].tokens);
    comparison.Floats("logprobs", all.samples[i].logprobs, eight.samples[i].logprobs);
  }
  EXPECT_TRUE(comparison.Same());
  std::set<std::vector<int32_t>> streams;
  for (const GeneratedSample& sample : all.samples) streams.insert(sample.tokens);
  EXPECT_EQ(streams.size(), 32u);
}

// Field notes B20: without a seed a fresh one is drawn and told, and it gives the same again.
TEST(GenerationSamplesTest, AFreshSeedIsToldAndRepeats) {
  EngineDriver driver(BaselineConfig(ModelDirectory()));
  GenerateRequest request;
  request.prompt = TinyTokens(3, 12);
  request.max_tokens = 24;
  request.ignore_eos = true;
  const Generated first = driver.Generate(request);
  const Generated second = driver.Generate(request);
  ASSERT_TRUE(first.status.ok() && second.status.ok());
  EXPECT_NE(first.header.seed_used, second.header.seed_used);
  EXPECT_NE(first.samples[0].tokens, second.samples[0].tokens);
  request.seed = first.header.seed_used;
  EXPECT_EQ(driver.Generate(request).samples[0].tokens, first.samples[0].tokens);
}

}  // namespace
}  // namespace lockstep
