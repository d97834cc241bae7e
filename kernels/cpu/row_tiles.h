#ifndef LOCKSTEP_KERNELS_CPU_ROW_TILES_H_
#define LOCKSTEP_KERNELS_CPU_ROW_TILES_H_

#include <algorithm>
#include <cstdint>

namespace lockstep::kernels::cpu {

// Rows in groups whose number is known to the compiler. (Lambdas are a type of the file that has
// them, so these templates need no parameter of an instruction set.)

template <int64_t kRows, class Body>
inline void ForRowTile(int64_t rows, int64_t first_row, Body& body) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      body.template operator()<kRows>(first_row);
    } else {
      ForRowTile<kRows - 1>(rows, first_row, body);
    }
  }
}

// Calls body.template operator()<kRows>(first_row) over [0, rows) in tiles of kRowsMax; what is
// left over is shared out so that no tile is much smaller than the others (4 rows are 2 + 2 of at
// most 3: a tile of one row cannot hide the latency of an FMA).
template <int64_t kRowsMax, class Body>
inline void ForRowTiles(int64_t rows, Body body) {
  for (int64_t row = 0; row < rows;) {
    const int64_t left = rows - row;
    int64_t take = std::min(left, kRowsMax);
    if (left > kRowsMax && left < 2 * kRowsMax) take = (left + 1) / 2;
    ForRowTile<kRowsMax>(take, row, body);
    row += take;
  }
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ROW_TILES_H_
