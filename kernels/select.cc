#include "kernels/select.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/backends.h"
#include "kernels/self_test.h"

namespace lockstep::kernels {

std::string_view ProfileName(Profile profile) {
  return profile == Profile::kFp32 ? "fp32" : "bf16";
}

absl::StatusOr<Profile> ParseProfile(std::string_view name) {
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    if (name == ProfileName(profile)) return profile;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown profile '", std::string(name), "'; known are: fp32, bf16"));
}

absl::Span<const InstructionSet> InstructionSetsOf(Profile profile) {
  static_assert(std::end(kInstructionSets)[-1] == InstructionSet::kAvx512Bf16);
  const auto sets = absl::MakeConstSpan(kInstructionSets);
  return profile == Profile::kBf16 ? sets : sets.first(sets.size() - 1);
}

std::string_view InstructionSetName(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kReference:
      return "reference";
    case InstructionSet::kScalar:
      return "scalar";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

absl::StatusOr<InstructionSet> ParseInstructionSet(std::string_view name) {
  std::string known;
  for (const InstructionSet set : kInstructionSets) {
    if (name == InstructionSetName(set)) return set;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(InstructionSetName(set)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown instruction set '", std::string(name), "'; known are: ", known));
}

bool CpuSupports(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kReference:
    case InstructionSet::kScalar:
      return __builtin_cpu_supports("fma") != 0;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && CpuSupports(InstructionSet::kAvx2);
    case InstructionSet::kAvx512Bf16:
      // Compilers take AVX512BW for granted beside it.
      return __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             CpuSupports(InstructionSet::kAvx512);
  }
  return false;
}

std::unique_ptr<Kernels> CreateKernels(InstructionSet instruction_set, Profile profile) {
  const bool fp32 = profile == Profile::kFp32;
  switch (instruction_set) {
    case InstructionSet::kReference:
      return CreateReferenceKernels(profile);
    case InstructionSet::kScalar:
      return fp32 ? CreateScalarFp32Kernels() : CreateScalarBf16Kernels();
    case InstructionSet::kAvx2:
      return fp32 ? CreateAvx2Fp32Kernels() : CreateAvx2Bf16Kernels();
    case InstructionSet::kAvx512:
      return fp32 ? CreateAvx512Fp32Kernels() : CreateAvx512Bf16Kernels();
    case InstructionSet::kAvx512Bf16:
      return CreateAvx512DotKernels();
  }
  return nullptr;
}

absl::StatusOr<SelectedKernels> SelectFrom(Parallel& parallel,
                                           absl::Span<const KernelsCandidate> candidates,
                                           const Kernels& reference,
                                           std::optional<InstructionSet> forced) {
  std::string note;
  bool exists = false;
  for (const KernelsCandidate& candidate : candidates) {
    if (forced.has_value() && candidate.instruction_set != *forced) continue;
    exists = true;
    if (!candidate.supported) continue;
    std::unique_ptr<Kernels> kernels = candidate.create();
    const absl::Status tested = SelfTest(parallel, *kernels, reference);
    if (tested.ok()) {
      return SelectedKernels{.instruction_set = candidate.instruction_set,
                             .kernels = std::move(kernels),
                             .note = std::move(note)};
    }
    absl::StrAppend(&note, note.empty() ? "" : "; ", "self-test: ", std::string(tested.message()));
  }
  if (!note.empty()) return absl::FailedPreconditionError(note);
  if (forced.has_value() && !exists) {
    return absl::FailedPreconditionError(absl::StrCat(
        "instruction set '", std::string(InstructionSetName(*forced)), "' has nothing for profile ",
        std::string(ProfileName(reference.profile())), "; take 'auto' or a lower one"));
  }
  return absl::FailedPreconditionError(
      forced.has_value() ? absl::StrCat("this CPU does not support the instruction set '",
                                        std::string(InstructionSetName(*forced)), "'")
                         : "this CPU has no FMA instructions, which every kernel needs");
}

absl::StatusOr<SelectedKernels> SelectKernels(Parallel& parallel,
                                              std::optional<InstructionSet> forced,
                                              Profile profile) {
  std::vector<KernelsCandidate> candidates;
  for (const InstructionSet set : InstructionSetsOf(profile)) {
    candidates.insert(candidates.begin(), {.instruction_set = set,
                                           .supported = CpuSupports(set),
                                           .create = [=] { return CreateKernels(set, profile); }});
  }
  return SelectFrom(parallel, candidates, *CreateReferenceKernels(profile), forced);
}

}  // namespace lockstep::kernels
