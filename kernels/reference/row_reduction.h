#ifndef LOCKSTEP_KERNELS_REFERENCE_ROW_REDUCTION_H_
#define LOCKSTEP_KERNELS_REFERENCE_ROW_REDUCTION_H_

#include <cstdint>

namespace lockstep::kernels::reference {

// Reductions over n contiguous floats, in the one shape that the length n alone decides: blocks of
// kRowBlock elements; in a block, element i goes to chain i mod kRowChains; chains run ascending
// from +0 and are then added pairwise (c and c + 32, c and c + 16, ... c and c + 1); block sums are
// added ascending from +0; the last operation adds +0.
//
// They run inside the caller's FpEnvironment; NaN results are not canonical yet.

// Sum of x[i]: chain = chain + x[i].
float RowSum(const float* x, int64_t n);

// Sum of a[i] * b[i]: chain = fma(a[i], b[i], chain). a may be b.
float RowDot(const float* a, const float* b, int64_t n);

// The largest x[i], -inf if there is none; NaN never wins.
float RowMax(const float* x, int64_t n);

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_ROW_REDUCTION_H_
