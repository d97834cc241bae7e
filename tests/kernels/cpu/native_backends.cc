#include "kernels/select.h"
#include "tests/kernels/cpu/backends_under_test.h"

namespace lockstep::kernels {

std::vector<std::unique_ptr<Kernels>> BackendsUnderTest() {
  std::vector<std::unique_ptr<Kernels>> backends;
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    for (const InstructionSet set : InstructionSetsOf(profile)) {
      if (set == InstructionSet::kReference || !CpuSupports(set)) continue;
      backends.push_back(CreateKernels(set, profile));
    }
  }
  return backends;
}

}  // namespace lockstep::kernels
