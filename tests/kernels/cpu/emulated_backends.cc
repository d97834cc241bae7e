#include "tests/kernels/cpu/backends_under_test.h"
#include "tests/kernels/cpu/emulated_avx512.h"
// After the emulation, which takes the place of the intrinsics in it.
#include "kernels/cpu/cpu_kernels_inl.h"
#include "kernels/cpu/simd_avx512.h"

namespace lockstep::kernels {

// A tag of its own (simd_avx512.h).
struct Emulated;

std::vector<std::unique_ptr<Kernels>> BackendsUnderTest() {
  using V = avx512::F32x16<Emulated>;
  std::vector<std::unique_ptr<Kernels>> backends;
  backends.push_back(std::make_unique<cpu::CpuKernels<V, cpu::Fp32Element>>("emulated avx512"));
  backends.push_back(std::make_unique<cpu::CpuKernels<V, cpu::Bf16Element>>("emulated avx512"));
  backends.push_back(
      std::make_unique<cpu::CpuKernels<V, cpu::Bf16DotElement>>("emulated avx512_bf16"));
  return backends;
}

}  // namespace lockstep::kernels
