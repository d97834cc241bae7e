// One sequence on its way through the pipeline: a sample that grows, or a given text to score.
// A plain value of the batcher's.
#ifndef LOCKSTEP_CORE_GENERATE_SEQUENCE_H_
#define LOCKSTEP_CORE_GENERATE_SEQUENCE_H_

#include <cstdint>
#include <vector>

namespace lockstep {

struct Sequence {
  int64_t index = 0;            // within its job: sample, or sequence to score
  std::vector<int32_t> tokens;  // known so far
  int64_t runnable = 0;         // positions [0, runnable) can be computed now
  int64_t positions_max = 0;    // positions that will ever be computed: what pages are taken for
  int64_t chunk_max = 0;        // most positions in one micro-batch
  int64_t computed = 0;         // positions whose K and V lie in `pages`
  std::vector<int32_t> pages;   // of positions [0, positions_max)
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_GENERATE_SEQUENCE_H_
