// Which sequences get how many rows of the next micro-batch: a pure function.
#ifndef LOCKSTEP_CORE_GENERATE_STEP_POLICY_H_
#define LOCKSTEP_CORE_GENERATE_STEP_POLICY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace lockstep {

// A sequence that could run now.
struct SequenceLoad {
  int64_t remaining = 0;  // positions to compute, >= 1; 1 is a decode row or the end of a prefill
  int64_t chunk_max = 0;  // most of them in one micro-batch, >= 1
};

// Rows for each of `loads`, which come longest-waiting first. Decode rows go first, one each, so
// that a long prompt delays no running stream by more than a chunk; what is left of `tokens_max`
// goes to prefill chunks in order of waiting. One row is kept for prefill when any waits, so that
// decodes cannot starve it; where one row is all there is, it goes to whoever waits longest. At
// most `sequences_max` sequences take part.
// REQUIRES: tokens_max >= 1, sequences_max >= 1.
std::vector<int64_t> PlanRows(absl::Span<const SequenceLoad> loads, int64_t tokens_max,
                              int64_t sequences_max);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_GENERATE_STEP_POLICY_H_
