#ifndef LOCKSTEP_KERNELS_CPU_GRAIN_H_
#define LOCKSTEP_KERNELS_CPU_GRAIN_H_

#include <algorithm>
#include <cstdint>

namespace lockstep::kernels::cpu {

// The least work worth waking a thread for, in elements read: some microseconds of it.
inline constexpr int64_t kGrainElements = 8192;

// Rows of `width` elements that make up that work.
constexpr int64_t GrainRows(int64_t width) {
  return std::max(int64_t{1}, kGrainElements / std::max(width, int64_t{1}));
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_GRAIN_H_
