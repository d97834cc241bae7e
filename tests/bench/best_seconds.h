#ifndef LOCKSTEP_TESTS_BENCH_BEST_SECONDS_H_
#define LOCKSTEP_TESTS_BENCH_BEST_SECONDS_H_

#include <algorithm>
#include <chrono>

namespace lockstep::bench {

// The shortest of a few runs, in seconds: a bound is what the machine can do, not what it did while
// a neighbour was busy.
template <typename Body>
double BestSeconds(Body body) {
  constexpr int kPasses = 5;
  double best = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_BEST_SECONDS_H_
