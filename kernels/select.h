#ifndef LOCKSTEP_KERNELS_SELECT_H_
#define LOCKSTEP_KERNELS_SELECT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

namespace lockstep::kernels {

// Which backend runs. All produce the same bits, so the choice is about speed alone.
enum class InstructionSet {
  kReference,   // the specification, with FMA
  kScalar,      // the kernels of kernels/cpu with FMA alone
  kAvx2,        // AVX2 and FMA
  kAvx512,      // AVX512F
  kAvx512Bf16,  // AVX512F and AVX512_BF16: profile bf16 only
};
// Slowest first.
inline constexpr InstructionSet kInstructionSets[] = {
    InstructionSet::kReference, InstructionSet::kScalar, InstructionSet::kAvx2,
    InstructionSet::kAvx512, InstructionSet::kAvx512Bf16};
// Those of them that have kernels of their own for a profile.
absl::Span<const InstructionSet> InstructionSetsOf(Profile profile);

// "fp32", "bf16".
std::string_view ProfileName(Profile profile);
// INVALID_ARGUMENT naming the text and what is known.
absl::StatusOr<Profile> ParseProfile(std::string_view name);

// "reference", "scalar", "avx2", "avx512", "avx512_bf16".
std::string_view InstructionSetName(InstructionSet instruction_set);
// INVALID_ARGUMENT naming the text and what is known.
absl::StatusOr<InstructionSet> ParseInstructionSet(std::string_view name);

struct SelectedKernels {
  InstructionSet instruction_set = InstructionSet::kReference;
  std::unique_ptr<Kernels> kernels;
  // Why no faster set was taken, when the self-test says so; for the log. Empty if nothing is
  // amiss.
  std::string note;
};

// The fastest backend that this CPU supports and that passes the self-test; each one that fails it
// is stepped over, with a sentence in `note`. With `forced`, that one or FAILED_PRECONDITION: the
// CPU lacks it, the profile has no kernels of it, or they fail the self-test. FAILED_PRECONDITION
// too when the CPU has no FMA: nothing can run. The self-test runs on the threads of `parallel`.
absl::StatusOr<SelectedKernels> SelectKernels(Parallel& parallel,
                                              std::optional<InstructionSet> forced,
                                              Profile profile = Profile::kFp32);

// Whether this CPU (and its operating system) can run a set.
bool CpuSupports(InstructionSet instruction_set);

// REQUIRES: CpuSupports the set, which is one of InstructionSetsOf the profile.
std::unique_ptr<Kernels> CreateKernels(InstructionSet instruction_set, Profile profile);

// The rule behind SelectKernels, over any candidates, fastest first.
struct KernelsCandidate {
  InstructionSet instruction_set;
  bool supported;
  std::function<std::unique_ptr<Kernels>()> create;
};
absl::StatusOr<SelectedKernels> SelectFrom(Parallel& parallel,
                                           absl::Span<const KernelsCandidate> candidates,
                                           const Kernels& reference,
                                           std::optional<InstructionSet> forced);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SELECT_H_
