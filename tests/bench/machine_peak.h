#ifndef LOCKSTEP_TESTS_BENCH_MACHINE_PEAK_H_
#define LOCKSTEP_TESTS_BENCH_MACHINE_PEAK_H_

#include <cstdint>

#include "kernels/parallel.h"

namespace lockstep::bench {

// What the machine gives right now: the bounds that a kernel's speed is printed beside, measured in
// the same run, because neighbours and clocks move them.

// fp32 FMA, in GFLOP/s: independent chains in registers, no memory, one loop in each of `threads`
// ranges. REQUIRES: AVX2 and FMA.
double FmaPeakGflops(kernels::Parallel& parallel, int threads);

// Reading n floats once, in GB/s, ranges in order. The best of a few passes.
double ReadGigabytesPerSecond(kernels::Parallel& parallel, const float* data, int64_t n);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_MACHINE_PEAK_H_
