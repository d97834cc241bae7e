#include "kernels/cpu/avx2_kernels.h"

namespace lockstep::kernels {

std::unique_ptr<Kernels> CreateAvx2Kernels(Profile profile) {
  return profile == Profile::kFp32 ? CreateAvx2Fp32Kernels() : CreateAvx2Bf16Kernels();
}

}  // namespace lockstep::kernels
