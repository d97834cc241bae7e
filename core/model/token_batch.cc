#include "core/model/token_batch.h"

#include <utility>

namespace lockstep {

void TokenBatch::Append(const int32_t* token_ids, int64_t count, int64_t first_position,
                        std::vector<int32_t> pages) {
  SequenceSlice slice;
  slice.row_begin = row_count();
  slice.row_count = count;
  slice.first_position = first_position;
  slice.pages = std::move(pages);
  sequences.push_back(std::move(slice));
  tokens.insert(tokens.end(), token_ids, token_ids + count);
  for (int64_t i = 0; i < count; ++i) {
    positions.push_back(static_cast<int32_t>(first_position + i));
  }
}

}  // namespace lockstep
