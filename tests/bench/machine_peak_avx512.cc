#include "tests/bench/machine_peak_avx512.h"

#include <immintrin.h>

#include <cstdint>

#include "tests/bench/best_seconds.h"

namespace lockstep::bench {
namespace {

// Enough to cover the latency of VDPBF16PS (6) on two units, and some more.
constexpr int kChains = 16;
constexpr int64_t kSteps = 400'000;

// Runs kChains independent chains of `step(chain)` on every thread; returns the steps a second of
// all of them together.
template <typename Step>
double ChainStepsPerSecond(kernels::Parallel& parallel, int threads, Step step) {
  const double seconds = BestSeconds([&] {
    parallel.For(threads, 1, [&](int64_t /*begin*/, int64_t /*end*/) {
      __m512 chains[kChains];
      for (__m512& chain : chains) {
        chain = _mm512_set1_ps(1.0f);
        asm volatile("" : "+v"(chain));  // else the compiler may see that all chains are equal
      }
      for (int64_t i = 0; i < kSteps; ++i) {
        for (__m512& chain : chains) chain = step(chain);
      }
      for (const __m512& chain : chains) asm volatile("" : : "v"(chain));
    });
  });
  return static_cast<double>(kChains) * kSteps * threads / seconds;
}

}  // namespace

double FmaPeakGflopsAvx512(kernels::Parallel& parallel, int threads) {
  __m512 factor = _mm512_set1_ps(0.999f);
  __m512 addend = _mm512_set1_ps(1e-3f);
  asm volatile("" : "+v"(factor), "+v"(addend));
  const auto step = [factor, addend](__m512 chain) {
    return _mm512_fmadd_ps(chain, factor, addend);
  };
  return ChainStepsPerSecond(parallel, threads, step) * 32.0 * 1e-9;
}

double Bf16DotPeakGflops(kernels::Parallel& parallel, int threads) {
  __m512i ones = _mm512_set1_epi16(0x3f80);  // 1.0 in bf16
  asm volatile("" : "+v"(ones));
  const auto step = [ones](__m512 chain) {
    return _mm512_dpbf16_ps(chain, reinterpret_cast<__m512bh>(ones),
                            reinterpret_cast<__m512bh>(ones));
  };
  return ChainStepsPerSecond(parallel, threads, step) * 64.0 * 1e-9;
}

}  // namespace lockstep::bench
