#ifndef LOCKSTEP_KERNELS_CPU_BACKENDS_H_
#define LOCKSTEP_KERNELS_CPU_BACKENDS_H_

#include <memory>

#include "kernels/kernels.h"

namespace lockstep::kernels {

// CpuKernels for each instruction set and profile, every one in a file that is compiled for its
// set. REQUIRES: the CPU has the set (kernels/select.h asks it).
std::unique_ptr<Kernels> CreateScalarFp32Kernels();  // FMA
std::unique_ptr<Kernels> CreateScalarBf16Kernels();
std::unique_ptr<Kernels> CreateAvx2Fp32Kernels();  // AVX2, FMA
std::unique_ptr<Kernels> CreateAvx2Bf16Kernels();
std::unique_ptr<Kernels> CreateAvx512Fp32Kernels();  // AVX512F
std::unique_ptr<Kernels> CreateAvx512Bf16Kernels();
std::unique_ptr<Kernels> CreateAvx512DotKernels();  // AVX512_BF16, profile bf16

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CPU_BACKENDS_H_
