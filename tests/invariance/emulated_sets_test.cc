// Goal: generation and training on AVX-512, with VDPBF16PS and without, are those of scalar code,
// on any machine: tokens, log-probs, scores, gradients' norms, digests of weights and moments.
// Method: the matrices' requests and steps on an engine whose kernels are replaced by the emulation
// of tests/kernels/cpu/emulated_avx512.h, against one that is forced to scalar.
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "tests/invariance/generation_matrix.h"
#include "tests/invariance/training_matrix.h"
#include "tests/kernels/cpu/backends_under_test.h"
#include "tests/support/engine_driver.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::Profile;

constexpr uint64_t kWeightsSeed = 21;
constexpr int kSteps = 4;  // every kind of step once

// An emulated backend by its name.
std::unique_ptr<kernels::Kernels> Emulated(const std::string& name, Profile profile) {
  for (auto& backend : kernels::BackendsUnderTest()) {
    if (backend->name() == name && backend->profile() == profile) return std::move(backend);
  }
  LOCKSTEP_CHECK(false) << "no backend " << name;
  return nullptr;
}

class EmulatedSetsTest : public testing::TestWithParam<std::tuple<const char*, Profile>> {
 protected:
  EmulatedSetsTest() {
    const absl::Status written =
        WriteTinyModel(directory_, TinyModelConfig(true, kMatrixLayers), kWeightsSeed);
    LOCKSTEP_CHECK(written.ok()) << written.ToString();
    scalar_ = BaselineConfig("");
    scalar_.profile = std::get<1>(GetParam());
    scalar_.instruction_set = kernels::InstructionSet::kScalar;
    split_ = scalar_;
    split_.stages = 2;
    split_.threads = 2;
    hooks_.wrap_kernels = [this](std::unique_ptr<kernels::Kernels>) {
      ++replaced_;
      return std::apply(Emulated, GetParam());
    };
  }

  const TempDirectory root_;
  const std::string directory_ = root_.PathOf("tiny");
  EngineConfig scalar_;
  EngineConfig split_;
  EngineHooks hooks_;
  int replaced_ = 0;
};

TEST_P(EmulatedSetsTest, Generates) {
  using Arrival = GenerationVariant::Arrival;
  const BitComparison comparison =
      Compare(RunGeneration({"emulated", split_, Arrival::kTogether}, directory_, hooks_),
              RunGeneration({"scalar", scalar_, Arrival::kOneByOne}, directory_));
  EXPECT_TRUE(comparison.Same());
  EXPECT_GT(comparison.compared(), 3 * 18 * 20);
  EXPECT_EQ(replaced_, 1);
}

TEST_P(EmulatedSetsTest, Trains) {
  const BitComparison comparison =
      Compare(RunTraining({"emulated", split_, 2, 0}, kSteps, directory_, hooks_),
              RunTraining({"scalar", scalar_, 0, 0}, kSteps, directory_));
  EXPECT_TRUE(comparison.Same());
  EXPECT_GT(comparison.compared(), 400 * kSteps);
  EXPECT_EQ(replaced_, 1);
}

INSTANTIATE_TEST_SUITE_P(Sets, EmulatedSetsTest,
                         testing::Values(std::tuple("emulated avx512", Profile::kFp32),
                                         std::tuple("emulated avx512", Profile::kBf16),
                                         std::tuple("emulated avx512_bf16", Profile::kBf16)),
                         [](const auto& info) {
                           std::string name(std::get<0>(info.param));
                           name[name.find(' ')] = '_';
                           return name + "_in_" +
                                  std::string(kernels::ProfileName(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace lockstep
