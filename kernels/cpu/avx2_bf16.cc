// Compiled for one instruction set. Everything it instantiates carries avx2::F32x8 in its name, so
// that no other file can end up with this code (tests/kernels/cpu/own_symbols_test.py).

#include "kernels/cpu/backends.h"
#include "kernels/cpu/cpu_kernels_inl.h"
#include "kernels/cpu/simd_avx2.h"

namespace lockstep::kernels {

std::unique_ptr<Kernels> CreateAvx2Bf16Kernels() {
  return std::make_unique<cpu::CpuKernels<avx2::F32x8, cpu::Bf16Element>>("avx2");
}

}  // namespace lockstep::kernels
