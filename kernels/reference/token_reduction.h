#ifndef LOCKSTEP_KERNELS_REFERENCE_TOKEN_REDUCTION_H_
#define LOCKSTEP_KERNELS_REFERENCE_TOKEN_REDUCTION_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/reference/scalar.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::reference {

// Calls body(i) for [begin, end) in the order of a product's chain: ascending, in profile bf16 by
// pairs from `begin` with the second of a pair first.
template <typename Body>
void ForEachInOrder(Profile profile, int64_t begin, int64_t end, Body body) {
  if (profile == Profile::kFp32) {
    for (int64_t i = begin; i < end; ++i) body(i);
    return;
  }
  for (int64_t i = begin; i < end; i += 2) {
    if (i + 1 < end) body(i + 1);
    body(i);
  }
}

// `accumulator` with the rows of every datum added to it: each datum is cut into chunks of
// kTokenChunk rows; a chunk is a chain from +0, `chain = extend(row, chain)`, rows ascending;
// chunks are added to the accumulator one by one, ascending. So the result depends on the data
// and their order, not on how many calls brought them.
// Products over tokens name their profile; other sums have the same order in every one.
template <typename Extend>
float AddTokens(absl::Span<const int64_t> datum_begins, float accumulator, Extend extend,
                Profile profile = Profile::kFp32) {
  for (size_t datum = 0; datum + 1 < datum_begins.size(); ++datum) {
    const int64_t datum_end = datum_begins[datum + 1];
    for (int64_t begin = datum_begins[datum]; begin < datum_end; begin += kTokenChunk) {
      const int64_t end = std::min(begin + kTokenChunk, datum_end);
      float chain = 0.0f;
      ForEachInOrder(profile, begin, end, [&](int64_t row) { chain = extend(row, chain); });
      accumulator = accumulator + chain;
    }
  }
  return Finish(accumulator);
}

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_TOKEN_REDUCTION_H_
