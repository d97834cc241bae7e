#ifndef LOCKSTEP_KERNELS_CPU_AVX2_KERNELS_H_
#define LOCKSTEP_KERNELS_CPU_AVX2_KERNELS_H_

#include <memory>

#include "kernels/kernels.h"

namespace lockstep::kernels {

// The AVX2 + FMA backend. REQUIRES: the CPU has both (kernels/select.h asks it).
std::unique_ptr<Kernels> CreateAvx2Kernels(Profile profile = Profile::kFp32);

// Its two instantiations.
std::unique_ptr<Kernels> CreateAvx2Fp32Kernels();
std::unique_ptr<Kernels> CreateAvx2Bf16Kernels();

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CPU_AVX2_KERNELS_H_
