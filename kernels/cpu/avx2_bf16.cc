// One of the files compiled with -mavx2. Everything it instantiates carries avx2::F32x8 in its
// name, so no other file can end up with this code.

#include "kernels/cpu/avx2_kernels.h"
#include "kernels/cpu/cpu_kernels_inl.h"
#include "kernels/cpu/simd_avx2.h"

namespace lockstep::kernels {

std::unique_ptr<Kernels> CreateAvx2Bf16Kernels() {
  return std::make_unique<cpu::CpuKernels<avx2::F32x8, cpu::Bf16Element>>("avx2");
}

}  // namespace lockstep::kernels
