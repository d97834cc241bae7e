#include "kernels/select.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/avx2_kernels.h"
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

std::string_view InstructionSetName(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kReference:
      return "reference";
    case InstructionSet::kAvx2:
      return "avx2";
  }
  return "unknown";
}

absl::StatusOr<InstructionSet> ParseInstructionSet(std::string_view name) {
  for (const InstructionSet set : {InstructionSet::kReference, InstructionSet::kAvx2}) {
    if (name == InstructionSetName(set)) return set;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown instruction set '", std::string(name),
                                                 "'; known are: reference, avx2"));
}

bool CpuSupports(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kReference:
      return __builtin_cpu_supports("fma") != 0;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  }
  return false;
}

absl::StatusOr<SelectedKernels> SelectFrom(absl::Span<const KernelsCandidate> candidates,
                                           const Kernels& reference,
                                           std::optional<InstructionSet> forced) {
  std::string note;
  for (const KernelsCandidate& candidate : candidates) {
    if (forced.has_value() && candidate.instruction_set != *forced) continue;
    if (!candidate.supported) continue;
    std::unique_ptr<Kernels> kernels = candidate.create();
    const absl::Status tested = SelfTest(*kernels, reference);
    if (tested.ok()) {
      return SelectedKernels{.instruction_set = candidate.instruction_set,
                             .kernels = std::move(kernels),
                             .note = std::move(note)};
    }
    absl::StrAppend(&note, note.empty() ? "" : "; ", "self-test: ", std::string(tested.message()));
  }
  if (!note.empty()) return absl::FailedPreconditionError(note);
  return absl::FailedPreconditionError(
      forced.has_value() ? absl::StrCat("this CPU does not support the instruction set '",
                                        std::string(InstructionSetName(*forced)), "'")
                         : "this CPU has no FMA instructions, which every kernel needs");
}

absl::StatusOr<SelectedKernels> SelectKernels(std::optional<InstructionSet> forced,
                                              Profile profile) {
  const KernelsCandidate candidates[] = {
      {.instruction_set = InstructionSet::kAvx2,
       .supported = CpuSupports(InstructionSet::kAvx2),
       .create = [profile] { return CreateAvx2Kernels(profile); }},
      {.instruction_set = InstructionSet::kReference,
       .supported = CpuSupports(InstructionSet::kReference),
       .create = [profile] { return CreateReferenceKernels(profile); }},
  };
  return SelectFrom(candidates, *CreateReferenceKernels(profile), forced);
}

}  // namespace lockstep::kernels
