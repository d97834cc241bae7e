#ifndef LOCKSTEP_TESTS_KERNELS_CPU_BACKENDS_UNDER_TEST_H_
#define LOCKSTEP_TESTS_KERNELS_CPU_BACKENDS_UNDER_TEST_H_

#include <memory>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep::kernels {

// The backends that a bit test compares with the reference of the same profile. A test is linked
// with one of two: native_backends.cc, every instruction set that this CPU has; or
// emulated_backends.cc, AVX-512 on any CPU.
std::vector<std::unique_ptr<Kernels>> BackendsUnderTest();

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_CPU_BACKENDS_UNDER_TEST_H_
