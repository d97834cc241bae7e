// Goal: the start-up self-test passes real backends and names the operation of a faulty one.
// Method: one planted fault, one bit in one element, per operation.

#include "kernels/self_test.h"

#include <memory>
#include <string>

#include "absl/algorithm/container.h"
#include "core/device/worker_set.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/kernels/faulty_kernels.h"

namespace lockstep::kernels {
namespace {

class EverySetTest : public testing::TestWithParam<InstructionSet> {};

TEST_P(EverySetTest, EqualsReference) {
  if (!CpuSupports(GetParam())) GTEST_SKIP() << "cpu lacks " << InstructionSetName(GetParam());
  Serial serial;
  int compared = 0;
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    if (!absl::c_linear_search(InstructionSetsOf(profile), GetParam())) continue;
    EXPECT_EQ(
        SelfTest(serial, *CreateKernels(GetParam(), profile), *CreateReferenceKernels(profile)),
        absl::OkStatus());
    ++compared;
  }
  EXPECT_EQ(compared, GetParam() == InstructionSet::kAvx512Bf16 ? 1 : 2);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, EverySetTest, testing::ValuesIn(kInstructionSets),
                         [](const testing::TestParamInfo<InstructionSet>& info) {
                           return std::string(InstructionSetName(info.param));
                         });

class PlantedFaultTest : public testing::TestWithParam<const char*> {};

TEST_P(PlantedFaultTest, IsNamed) {
  const std::unique_ptr<WorkerSet> workers = *WorkerSet::Create(3);
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    const std::unique_ptr<Kernels> reference = CreateReferenceKernels(profile);
    const FaultyKernels faulty(*reference, GetParam());
    const absl::Status status = SelfTest(*workers, faulty, *reference);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    const std::string expected =
        "kernels 'faulty' differ from the reference in " + std::string(GetParam()) + ": ";
    EXPECT_EQ(std::string(status.message()).substr(0, expected.size()), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryOperation, PlantedFaultTest,
    testing::Values("Pack", "MatMul", "MatMulBackwardInput", "MatMulBackwardWeight", "Embedding",
                    "EmbeddingBackward", "RmsNorm", "RmsNormBackward", "HeadNorm",
                    "HeadNormBackward", "AddBias", "AddBiasBackward", "Add", "Rope", "RopeBackward",
                    "StoreKv", "Attention", "AttentionBackward", "SiluMul", "SiluMulBackward",
                    "LogProb", "LogProbBackward", "Probabilities", "SumOfSquares", "AdamW",
                    "Digest", "Exp", "Log"),
    [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

TEST(SelfTestTest, NamesIndexAndBothPatterns) {
  Serial serial;
  const std::unique_ptr<Kernels> reference = CreateReferenceKernels();
  const FaultyKernels faulty(*reference, "MatMul");
  // The first case has 33 outputs.
  const std::string message(SelfTest(serial, faulty, *reference).message());
  EXPECT_NE(message.find("MatMul: y[32] has bits 0x"), std::string::npos) << message;
  EXPECT_NE(message.find(", expected 0x"), std::string::npos) << message;
}

// On whatever thread either is found.
TEST(SelfTestTest, NamesTheFirstOfTwoFaults) {
  const std::unique_ptr<Kernels> reference = CreateReferenceKernels();
  const FaultyKernels late(*reference, "Log");
  const FaultyKernels both(late, "MatMul");
  for (const int threads : {1, 2, 3, 7}) {
    const std::unique_ptr<WorkerSet> workers = *WorkerSet::Create(threads);
    const std::string message(SelfTest(*workers, both, *reference).message());
    EXPECT_NE(message.find(" in MatMul: "), std::string::npos) << threads << ": " << message;
  }
}

}  // namespace
}  // namespace lockstep::kernels
