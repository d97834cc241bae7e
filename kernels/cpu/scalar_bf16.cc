// Compiled for one instruction set. Everything it instantiates carries scalar::F32x1 in its name,
// so that no other file can end up with this code (tests/kernels/cpu/own_symbols_test.py).

#include "kernels/cpu/backends.h"
#include "kernels/cpu/cpu_kernels_inl.h"
#include "kernels/cpu/simd_scalar.h"

namespace lockstep::kernels {

std::unique_ptr<Kernels> CreateScalarBf16Kernels() {
  return std::make_unique<cpu::CpuKernels<scalar::F32x1, cpu::Bf16Element>>("scalar");
}

}  // namespace lockstep::kernels
