#ifndef LOCKSTEP_CORE_MODEL_TOKEN_BATCH_H_
#define LOCKSTEP_CORE_MODEL_TOKEN_BATCH_H_

#include <cstdint>
#include <vector>

namespace lockstep {

// Consecutive positions of one sequence inside a batch, and the KV pages that hold the sequence.
struct SequenceSlice {
  int64_t row_begin = 0;
  int64_t row_count = 0;
  int64_t first_position = 0;
  std::vector<int32_t> pages;  // page of position p: pages[p / page_size]
};

// What a forward runs on, and all that it can know: rows of (token, sequence, position). A decode
// step, a prefill chunk, a Score call and a training forward are all just TokenBatches. A value:
// it can be serialised.
struct TokenBatch {
  std::vector<int32_t> tokens;     // [M]
  std::vector<int32_t> positions;  // [M]
  std::vector<SequenceSlice> sequences;

  int64_t row_count() const { return static_cast<int64_t>(tokens.size()); }

  // Appends `count` rows of one sequence from `first_position`.
  void Append(const int32_t* token_ids, int64_t count, int64_t first_position,
              std::vector<int32_t> pages);
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_TOKEN_BATCH_H_
