#ifndef LOCKSTEP_KERNELS_REFERENCE_TOKEN_REDUCTION_H_
#define LOCKSTEP_KERNELS_REFERENCE_TOKEN_REDUCTION_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/reference/scalar.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::reference {

// `accumulator` with the rows of every datum added to it: each datum is cut into chunks of
// kTokenChunk rows; a chunk is a chain from +0, `chain = extend(row, chain)`, rows ascending;
// chunks are added to the accumulator one by one, ascending. So the result depends on the data
// and their order, not on how many calls brought them.
template <typename Extend>
float AddTokens(absl::Span<const int64_t> datum_begins, float accumulator, Extend extend) {
  for (size_t datum = 0; datum + 1 < datum_begins.size(); ++datum) {
    const int64_t datum_end = datum_begins[datum + 1];
    for (int64_t begin = datum_begins[datum]; begin < datum_end; begin += kTokenChunk) {
      const int64_t end = std::min(begin + kTokenChunk, datum_end);
      float chain = 0.0f;
      for (int64_t row = begin; row < end; ++row) chain = extend(row, chain);
      accumulator = accumulator + chain;
    }
  }
  return Finish(accumulator);
}

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_TOKEN_REDUCTION_H_
