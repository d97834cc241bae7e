// Compiled for one instruction set. Everything it instantiates carries
// avx512::F32x16<avx512::Foundation> in its name, so that no other file can end up with this code
// (tests/kernels/cpu/own_symbols_test.py).

#include "kernels/cpu/backends.h"
#include "kernels/cpu/cpu_kernels_inl.h"
#include "kernels/cpu/simd_avx512.h"

namespace lockstep::kernels {

std::unique_ptr<Kernels> CreateAvx512Fp32Kernels() {
  return std::make_unique<cpu::CpuKernels<avx512::F32x16<avx512::Foundation>, cpu::Fp32Element>>(
      "avx512");
}

}  // namespace lockstep::kernels
