// Goal: the backend is chosen by what the CPU has and the self-test says, and a forced one is
// honoured or refused by name. Method: SelectFrom over made-up candidates; SelectKernels on the
// actual machine.

#include "kernels/select.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/serial.h"
#include "tests/kernels/faulty_kernels.h"

namespace lockstep::kernels {
namespace {

class SelectTest : public testing::Test {
 protected:
  KernelsCandidate Good(InstructionSet set, bool supported = true) const {
    return {.instruction_set = set, .supported = supported, .create = [] {
              return CreateReferenceKernels();
            }};
  }
  KernelsCandidate Faulty(InstructionSet set) const {
    return {.instruction_set = set, .supported = true, .create = [this] {
              return std::make_unique<FaultyKernels>(*reference_, "RmsNorm");
            }};
  }

  const std::unique_ptr<Kernels> reference_ = CreateReferenceKernels();
  Serial serial_;
};

TEST_F(SelectTest, TakesTheFirstThatIsSupported) {
  const std::vector<KernelsCandidate> both = {Good(InstructionSet::kAvx2),
                                              Good(InstructionSet::kReference)};
  auto selected = SelectFrom(serial_, both, *reference_, std::nullopt);
  ASSERT_TRUE(selected.ok());
  EXPECT_EQ(selected->instruction_set, InstructionSet::kAvx2);
  EXPECT_EQ(selected->note, "");

  const std::vector<KernelsCandidate> old_cpu = {Good(InstructionSet::kAvx2, false),
                                                 Good(InstructionSet::kReference)};
  selected = SelectFrom(serial_, old_cpu, *reference_, std::nullopt);
  ASSERT_TRUE(selected.ok());
  EXPECT_EQ(selected->instruction_set, InstructionSet::kReference);
  EXPECT_EQ(selected->note, "");
}

TEST_F(SelectTest, StepsDownWhenASelfTestFailsAndSaysSo) {
  const std::vector<KernelsCandidate> candidates = {Faulty(InstructionSet::kAvx2),
                                                    Good(InstructionSet::kReference)};
  const auto selected = SelectFrom(serial_, candidates, *reference_, std::nullopt);
  ASSERT_TRUE(selected.ok());
  EXPECT_EQ(selected->instruction_set, InstructionSet::kReference);
  EXPECT_NE(selected->note.find("differ from the reference in RmsNorm"), std::string::npos)
      << selected->note;
}

TEST_F(SelectTest, ForcedSetIsHonouredOrRefusedByName) {
  const std::vector<KernelsCandidate> candidates = {Good(InstructionSet::kAvx2, false),
                                                    Good(InstructionSet::kReference)};
  const auto honoured = SelectFrom(serial_, candidates, *reference_, InstructionSet::kReference);
  ASSERT_TRUE(honoured.ok());
  EXPECT_EQ(honoured->instruction_set, InstructionSet::kReference);

  const auto refused = SelectFrom(serial_, candidates, *reference_, InstructionSet::kAvx2);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.status().message(), "this CPU does not support the instruction set 'avx2'");
}

TEST_F(SelectTest, ForcedSetThatFailsTheSelfTestIsRefused) {
  const std::vector<KernelsCandidate> candidates = {Faulty(InstructionSet::kAvx2),
                                                    Good(InstructionSet::kReference)};
  const auto refused = SelectFrom(serial_, candidates, *reference_, InstructionSet::kAvx2);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(refused.status().message()).find("RmsNorm"), std::string::npos);
}

TEST_F(SelectTest, NothingSupported) {
  const std::vector<KernelsCandidate> candidates = {Good(InstructionSet::kAvx2, false),
                                                    Good(InstructionSet::kReference, false)};
  const auto refused = SelectFrom(serial_, candidates, *reference_, std::nullopt);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
}

// The fastest that the CPU has, each profile its own; forced, every one that it has.
TEST(SelectKernelsTest, ThisMachine) {
  Serial serial;
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    SCOPED_TRACE(ProfileName(profile));
    InstructionSet fastest = InstructionSet::kReference;
    for (const InstructionSet set : kInstructionSets) {
      SCOPED_TRACE(InstructionSetName(set));
      const auto forced = SelectKernels(serial, set, profile);
      const bool exists = set != InstructionSet::kAvx512Bf16 || profile == Profile::kBf16;
      ASSERT_EQ(forced.ok(), CpuSupports(set) && exists) << forced.status();
      if (!forced.ok()) {
        EXPECT_EQ(forced.status().code(), absl::StatusCode::kFailedPrecondition);
        continue;
      }
      EXPECT_EQ(forced->instruction_set, set);
      EXPECT_EQ(forced->kernels->name(), InstructionSetName(set));
      EXPECT_EQ(forced->kernels->profile(), profile);
      fastest = set;
    }
    const auto selected = SelectKernels(serial, std::nullopt, profile);
    ASSERT_TRUE(selected.ok()) << selected.status();
    EXPECT_EQ(selected->note, "");
    EXPECT_EQ(selected->instruction_set, fastest);
  }
}

TEST_F(SelectTest, SetWithoutKernelsForTheProfile) {
  const std::vector<KernelsCandidate> candidates = {Good(InstructionSet::kAvx512),
                                                    Good(InstructionSet::kAvx2)};
  const auto refused = SelectFrom(serial_, candidates, *reference_, InstructionSet::kAvx512Bf16);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      refused.status().message(),
      "instruction set 'avx512_bf16' has nothing for profile fp32; take 'auto' or a lower one");
}

TEST(InstructionSetTest, NamesRoundTrip) {
  for (const InstructionSet set : kInstructionSets) {
    const auto parsed = ParseInstructionSet(InstructionSetName(set));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, set);
  }
  const auto unknown = ParseInstructionSet("AVX2");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(),
            "unknown instruction set 'AVX2'; known are: reference, scalar, avx2, avx512, "
            "avx512_bf16");
}

}  // namespace
}  // namespace lockstep::kernels
