#ifndef LOCKSTEP_KERNELS_CPU_DIGEST_H_
#define LOCKSTEP_KERNELS_CPU_DIGEST_H_

#include <cstdint>

#include "kernels/parallel.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Sum over i of MixElement(x[i], first_index + i). Integers only, so one body serves every
// instruction set. REQUIRES: the CPU has AVX2, as every kernel of this folder does.
Digest128 DigestElements(Parallel& parallel, const float* x, int64_t n, uint64_t first_index);

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_DIGEST_H_
