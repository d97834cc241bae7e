#ifndef LOCKSTEP_KERNELS_CPU_TRANSPOSE_H_
#define LOCKSTEP_KERNELS_CPU_TRANSPOSE_H_

#include <cstdint>

namespace lockstep::kernels::cpu {

// to[c * to_stride + r] = from[r * from_stride + c] for r in [0, rows), c in [0, columns): a copy
// that keeps every bit. Squares of vectors first, the edges one by one.
template <class V>
void Transpose(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride) {
  const int64_t whole_rows = rows - rows % V::kLanes;
  const int64_t whole_columns = columns - columns % V::kLanes;
  for (int64_t r = 0; r < whole_rows; r += V::kLanes) {
    for (int64_t c = 0; c < whole_columns; c += V::kLanes) {
      TransposeSquare(V::Zero(), from + r * from_stride + c, from_stride, to + c * to_stride + r,
                      to_stride);
    }
    for (int64_t c = whole_columns; c < columns; ++c) {
      for (int64_t lane = r; lane < r + V::kLanes; ++lane) {
        to[c * to_stride + lane] = from[lane * from_stride + c];
      }
    }
  }
  for (int64_t r = whole_rows; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_TRANSPOSE_H_
