#include <utility>

#include "kernels/select.h"
#include "tests/kernels/cpu/backends_under_test.h"

namespace lockstep::kernels {

std::vector<std::unique_ptr<Kernels>> BackendsUnderTest() {
  std::vector<std::unique_ptr<Kernels>> backends;
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    for (const InstructionSet set : kInstructionSets) {
      if (set == InstructionSet::kReference || !CpuSupports(set)) continue;
      auto kernels = CreateKernels(set, profile);
      if (kernels != nullptr) backends.push_back(std::move(kernels));
    }
  }
  return backends;
}

}  // namespace lockstep::kernels
