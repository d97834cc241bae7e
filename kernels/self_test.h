#ifndef LOCKSTEP_KERNELS_SELF_TEST_H_
#define LOCKSTEP_KERNELS_SELF_TEST_H_

#include "absl/status/status.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

namespace lockstep::kernels {

// Runs every operation of `kernels` and of `reference` on small, odd shapes and compares the
// outputs bit by bit. OK when all are equal; else INTERNAL naming the first operation that differs,
// the output and index, and both bit patterns. Takes some hundredths of a second; meant for every
// start of a server, because a compiler, a CPU or a hypervisor may differ from the one that the
// tests ran on.
absl::Status SelfTest(Parallel& parallel, const Kernels& kernels, const Kernels& reference);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SELF_TEST_H_
