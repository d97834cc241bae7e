#ifndef LOCKSTEP_TESTS_KERNELS_REFERENCE_PAGED_KV_H_
#define LOCKSTEP_TESTS_KERNELS_REFERENCE_PAGED_KV_H_

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep::kernels {

// Zeroed KV pages for sequences of up to `positions` positions. Owns the floats; page ids are dealt
// out backwards and two apart, so that walking them in memory order would be noticed.
class PagedKv {
 public:
  PagedKv(const AttentionShape& shape, int64_t sequences, int64_t positions, int64_t page_size)
      : pages_each_((positions + page_size - 1) / page_size),
        page_stride_(2 * shape.kv_heads * shape.head_dim * page_size),
        data_(2 * sequences * pages_each_ * page_stride_, 0.0f) {
    pages_ = {.data = data_.data(),
              .page_stride = page_stride_,
              .page_size = page_size,
              .kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim};
    for (int64_t i = 0; i < sequences * pages_each_; ++i) {
      page_ids_.push_back(static_cast<int32_t>(2 * (sequences * pages_each_ - 1 - i)));
    }
  }
  PagedKv(const PagedKv&) = delete;
  PagedKv& operator=(const PagedKv&) = delete;

  const KvPages& pages() const { return pages_; }

  SequenceRows Rows(int64_t sequence, int64_t row_begin, int64_t row_count,
                    int64_t first_position) const {
    return {.row_begin = row_begin,
            .row_count = row_count,
            .first_position = first_position,
            .pages = absl::MakeConstSpan(page_ids_).subspan(sequence * pages_each_, pages_each_)};
  }

 private:
  int64_t pages_each_;
  int64_t page_stride_;
  std::vector<float> data_;
  std::vector<int32_t> page_ids_;
  KvPages pages_;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_REFERENCE_PAGED_KV_H_
