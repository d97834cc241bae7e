#ifndef LOCKSTEP_KERNELS_FP_ENVIRONMENT_H_
#define LOCKSTEP_KERNELS_FP_ENVIRONMENT_H_

#include <xmmintrin.h>

namespace lockstep::kernels {

// The floating-point environment of every kernel: denormal operands read as zero (DAZ), denormal
// results written as zero (FTZ), rounding to nearest even, no traps. It is set while an object of
// this class lives; the destructor puts back what the thread had before, exception flags included.
//
// The environment belongs to a thread, so a body handed to Parallel::For opens a guard of its own.
// The empty asm statements are there because compilers do not know that arithmetic depends on
// MXCSR: no load is moved above the first one, and no store below the second, so arithmetic on
// memory stays inside. Constants that the compiler folds never see the environment.
//
// Always inlined, because files compiled for different instruction sets include this one: a shared
// copy compiled for AVX (vldmxcsr) would end the program on a CPU without it.
class FpEnvironment {
 public:
  [[gnu::always_inline]] FpEnvironment() : saved_(_mm_getcsr()) {
    _mm_setcsr(kKernelState);
    asm volatile("" ::: "memory");
  }
  [[gnu::always_inline]] ~FpEnvironment() {
    asm volatile("" ::: "memory");
    _mm_setcsr(saved_);
  }
  FpEnvironment(const FpEnvironment&) = delete;
  FpEnvironment& operator=(const FpEnvironment&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  static constexpr unsigned kMaskAllExceptions = 0x1f80;
  static constexpr unsigned kKernelState = kFlushToZero | kDenormalsAreZero | kMaskAllExceptions;

  const unsigned saved_;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_FP_ENVIRONMENT_H_
