// Goal: a training step is a function of the state before, the data in order and the options alone
// (promise P2): log-probs, loss, gradient norm, digests of weights and moments and the state's name
// after ten steps, over micro-batches, calls, packing, stages, threads, pages and backend (field
// notes B2 and B3).
// Method: every variant runs the same ten steps on an engine of its own and is compared with the
// baseline, all data of a step packed into one micro-batch on one thread, bit by bit. tests/faults
// plants what must turn the comparison red.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "tests/invariance/generation_matrix.h"
#include "tests/invariance/training_matrix.h"
#include "tests/support/engine_driver.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::Profile;

constexpr uint64_t kWeightsSeed = 21;
#ifdef __SANITIZE_ADDRESS__
constexpr int kSteps = 4;  // every kind of step once
#else
constexpr int kSteps = 10;
#endif

const std::string& ModelDirectory(TinyFamily family) {
  static const TempDirectory* const kRoot = new TempDirectory;
  static auto* const kPaths = new std::map<TinyFamily, std::string>;
  std::string& path = (*kPaths)[family];
  if (path.empty()) {
    path = kRoot->PathOf(Name(family));
    const absl::Status written =
        WriteTinyModel(path, TinyModelConfig(family, kMatrixLayers), kWeightsSeed);
    LOCKSTEP_CHECK(written.ok()) << written.ToString();
  }
  return path;
}

const std::vector<StepTrace>& Baseline(TinyFamily family, Profile profile = Profile::kFp32) {
  static auto* const kTraces = new std::map<std::pair<TinyFamily, Profile>, std::vector<StepTrace>>;
  std::vector<StepTrace>& traces = (*kTraces)[{family, profile}];
  if (traces.empty()) {
    const TrainingVariant baseline = TrainingVariants(profile).front();
    traces = RunTraining(baseline, kSteps, ModelDirectory(family));
  }
  return traces;
}

class TrainingInvarianceTest
    : public testing::TestWithParam<std::tuple<TrainingVariant, TinyFamily>> {};

TEST_P(TrainingInvarianceTest, SameBitsAsTheBaseline) {
  const auto& [variant, family] = GetParam();
  LOCKSTEP_SKIP_UNLESS_SUPPORTED(variant.config.instruction_set);
  const BitComparison comparison = Compare(RunTraining(variant, kSteps, ModelDirectory(family)),
                                           Baseline(family, variant.config.profile));
  EXPECT_TRUE(comparison.Same());
  EXPECT_GT(comparison.compared(), 400 * kSteps);
}

// Every variant of the tied model. An untied one is another head and another way for the pipeline's
// ends to work together, and the other families have tensors of their own in every layer, so they
// run where there are two ends. In bf16 every variant again.
std::vector<std::tuple<TrainingVariant, TinyFamily>> Cases() {
  std::vector<std::tuple<TrainingVariant, TinyFamily>> cases;
  for (const TrainingVariant& variant : TrainingVariants()) {
    for (const TinyFamily family : kTinyFamilies) {
      const bool two_ends = variant.config.stages > 1;
      if (family == TinyFamily::kTied || two_ends) cases.emplace_back(variant, family);
    }
  }
  for (TrainingVariant variant : TrainingVariants(Profile::kBf16)) {
    variant.name = "bf16_" + variant.name;
    cases.emplace_back(variant, TinyFamily::kTied);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Variants, TrainingInvarianceTest, testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name, "_",
                                               Name(std::get<1>(info.param)));
                         });

TEST(TrainingBaselineTest, IsWorthComparing) {
  for (const TinyFamily family : kTinyFamilies) {
    std::set<std::string> digests;
    std::set<StateId> states;
    for (const StepTrace& trace : Baseline(family)) {
      digests.insert(trace.weights_digest);
      digests.insert(trace.moments_digest);
      states.insert(trace.weights.state_id);
      EXPECT_FALSE(trace.optim.skipped);
      EXPECT_GT(trace.optim.grad_norm, 0);
    }
    EXPECT_EQ(digests.size(), size_t{2 * kSteps}) << "every step moves weights and moments";
    EXPECT_EQ(states.size(), size_t{kSteps});
  }
}

// Field notes B3: packed data do not leak. Another neighbour leaves a datum's log-probs alone.
TEST(TrainingPackingTest, ANeighbourChangesNothing) {
  EngineConfig config = TrainingVariants().front().config;
  config.model_directory = ModelDirectory(TinyFamily::kTied);
  ForwardBackwardRequest request;
  request.call = {"packing", 1};
  request.data = ScriptedStep(0).data;
  request.micro_batch_size = static_cast<int32_t>(request.data.size());
  EngineDriver driver(config);
  const auto first = driver.ForwardBackward(request);
  ASSERT_TRUE(first.ok()) << first.status();

  request.call.seq_id = 2;
  request.data[1] = ScriptedStep(5).data[0];
  const auto second = driver.ForwardBackward(request);
  ASSERT_TRUE(second.ok()) << second.status();
  BitComparison comparison;
  for (size_t i = 0; i < request.data.size(); ++i) {
    if (i != 1) comparison.Floats("logprobs", second->logprobs[i], first->logprobs[i]);
  }
  EXPECT_TRUE(comparison.Same());
}

}  // namespace
}  // namespace lockstep
