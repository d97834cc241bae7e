// Instruction sets as parameters of tests.
#ifndef LOCKSTEP_TESTS_SUPPORT_INSTRUCTION_SETS_H_
#define LOCKSTEP_TESTS_SUPPORT_INSTRUCTION_SETS_H_

#include <optional>

#include "gtest/gtest.h"
#include "kernels/select.h"

// In a test's body or SetUp: leaves, naming the set, where the machine cannot run it. nullopt is
// the set that a server would choose.
#define LOCKSTEP_SKIP_UNLESS_SUPPORTED(set)                                    \
  if (const std::optional<::lockstep::kernels::InstructionSet> wanted = (set); \
      wanted.has_value() && !::lockstep::kernels::CpuSupports(*wanted))        \
  GTEST_SKIP() << "cpu lacks " << ::lockstep::kernels::InstructionSetName(*wanted)

#endif  // LOCKSTEP_TESTS_SUPPORT_INSTRUCTION_SETS_H_
