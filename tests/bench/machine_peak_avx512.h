#ifndef LOCKSTEP_TESTS_BENCH_MACHINE_PEAK_AVX512_H_
#define LOCKSTEP_TESTS_BENCH_MACHINE_PEAK_AVX512_H_

#include "kernels/parallel.h"

namespace lockstep::bench {

// As FmaPeakGflops of machine_peak.h, with the wider registers.

// fp32 FMA, in GFLOP/s. REQUIRES: kernels::CpuSupports(kAvx512).
double FmaPeakGflopsAvx512(kernels::Parallel& parallel, int threads);

// Dot products of pairs of bf16 added to fp32 (VDPBF16PS), in GFLOP/s: two products and two sums a
// lane. REQUIRES: kernels::CpuSupports(kAvx512Bf16).
double Bf16DotPeakGflops(kernels::Parallel& parallel, int threads);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_MACHINE_PEAK_AVX512_H_
