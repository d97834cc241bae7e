#include "tests/bench/machine_peak.h"

#include <immintrin.h>

#include "tests/bench/best_seconds.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kFloatsPerStep = 64;

// Keeps `value` from being optimised away.
void Keep(__m256 value) { asm volatile("" : : "x"(value)); }

}  // namespace

double FmaPeakGflops(kernels::Parallel& parallel, int threads) {
  constexpr int kChains = 12;  // latency 4 x 2 units, and some more
  constexpr int64_t kSteps = 200'000;
  const double seconds = BestSeconds([&] {
    parallel.For(threads, 1, [](int64_t /*begin*/, int64_t /*end*/) {
      __m256 chains[kChains];
      for (__m256& chain : chains) {
        chain = _mm256_set1_ps(1.0f);
        asm volatile("" : "+x"(chain));  // else the compiler may see that all chains are equal
      }
      __m256 factor = _mm256_set1_ps(0.999f);
      __m256 addend = _mm256_set1_ps(1e-3f);
      asm volatile("" : "+x"(factor), "+x"(addend));
      for (int64_t step = 0; step < kSteps; ++step) {
        for (int c = 0; c < kChains; ++c) {
          chains[c] = _mm256_fmadd_ps(chains[c], factor, addend);
        }
      }
      for (const __m256& chain : chains) Keep(chain);
    });
  });
  return 16.0 * kChains * kSteps * threads / seconds * 1e-9;
}

double ReadGigabytesPerSecond(kernels::Parallel& parallel, const float* data, int64_t n) {
  const double seconds = BestSeconds([&] {
    parallel.For(n / kFloatsPerStep, 1, [data](int64_t begin, int64_t end) {
      __m256 sums[8];
      for (__m256& sum : sums) sum = _mm256_setzero_ps();
      for (int64_t step = begin; step < end; ++step) {
        for (int v = 0; v < 8; ++v) {
          sums[v] = _mm256_add_ps(sums[v], _mm256_loadu_ps(data + step * kFloatsPerStep + 8 * v));
        }
      }
      for (const __m256& sum : sums) Keep(sum);
    });
  });
  return static_cast<double>(n) * sizeof(float) / seconds * 1e-9;
}

}  // namespace lockstep::bench
