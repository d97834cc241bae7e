#ifndef LOCKSTEP_KERNELS_REFERENCE_KV_READER_H_
#define LOCKSTEP_KERNELS_REFERENCE_KV_READER_H_

#include <cstdint>

#include "kernels/shapes.h"

namespace lockstep::kernels::reference {

// One sequence's K and V by absolute position, wherever its pages lie. Borrows both arguments.
class KvReader {
 public:
  KvReader(const KvPages& kv, const SequenceRows& sequence) : kv_(kv), pages_(sequence.pages) {}

  // Element d of the key (value) that `head` has at `position`; writable, for StoreKv.
  float& Key(int64_t head, int64_t position, int64_t d) const {
    return Page(position)[(head * kv_.head_dim + d) * kv_.page_size + position % kv_.page_size];
  }
  float& Value(int64_t head, int64_t position, int64_t d) const {
    float* values = Page(position) + kv_.kv_heads * kv_.head_dim * kv_.page_size;
    return values[(head * kv_.page_size + position % kv_.page_size) * kv_.head_dim + d];
  }

 private:
  float* Page(int64_t position) const {
    return kv_.data + pages_[position / kv_.page_size] * kv_.page_stride;
  }

  const KvPages& kv_;
  const absl::Span<const int32_t> pages_;
};

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_KV_READER_H_
