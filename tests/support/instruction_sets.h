// What of kernels::kInstructionSets can be tested on this machine.
#ifndef LOCKSTEP_TESTS_SUPPORT_INSTRUCTION_SETS_H_
#define LOCKSTEP_TESTS_SUPPORT_INSTRUCTION_SETS_H_

#include <string>

#include "kernels/select.h"

namespace lockstep {

// Why the kernels of a set and a profile cannot run here, for GTEST_SKIP; empty if they can.
inline std::string WhyNotHere(kernels::InstructionSet set, kernels::Profile profile) {
  const std::string name(kernels::InstructionSetName(set));
  if (!kernels::CpuSupports(set)) return "cpu lacks " + name;
  if (kernels::CreateKernels(set, profile) == nullptr) {
    return name + " has nothing for profile " + std::string(kernels::ProfileName(profile));
  }
  return "";
}

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_INSTRUCTION_SETS_H_
