#ifndef LOCKSTEP_KERNELS_REFERENCE_KV_READER_H_
#define LOCKSTEP_KERNELS_REFERENCE_KV_READER_H_

#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::reference {

// One sequence's K and V by absolute position, wherever its pages lie. Borrows both arguments.
class KvReader {
 public:
  KvReader(Profile profile, const KvPages& kv, const SequenceRows& sequence)
      : profile_(profile), kv_(kv), pages_(sequence.pages) {}

  // Element d of the key (value) that `head` has at `position`.
  float Key(int64_t head, int64_t position, int64_t d) const {
    return Read(KeyIndex(head, position, d));
  }
  float Value(int64_t head, int64_t position, int64_t d) const {
    return Read(ValueIndex(head, position, d));
  }
  void WriteKey(int64_t head, int64_t position, int64_t d, float value) const {
    Write(KeyIndex(head, position, d), value);
  }
  void WriteValue(int64_t head, int64_t position, int64_t d, float value) const {
    Write(ValueIndex(head, position, d), value);
  }

 private:
  int64_t Page(int64_t position) const {
    return pages_[position / kv_.page_size] * kv_.page_stride;
  }
  int64_t KeyIndex(int64_t head, int64_t position, int64_t d) const {
    return Page(position) + (head * kv_.head_dim + d) * kv_.page_size + position % kv_.page_size;
  }
  int64_t ValueIndex(int64_t head, int64_t position, int64_t d) const {
    const int64_t keys = kv_.kv_heads * kv_.head_dim * kv_.page_size;
    return Page(position) + keys +
           (head * kv_.page_size + position % kv_.page_size) * kv_.head_dim + d;
  }
  float Read(int64_t index) const {
    if (profile_ == Profile::kFp32) return static_cast<const float*>(kv_.data)[index];
    return WidenBf16(static_cast<const uint16_t*>(kv_.data)[index]);
  }
  void Write(int64_t index, float value) const {
    if (profile_ == Profile::kFp32) {
      static_cast<float*>(kv_.data)[index] = value;
    } else {
      static_cast<uint16_t*>(kv_.data)[index] = NarrowToBf16(value);
    }
  }

  const Profile profile_;
  const KvPages& kv_;
  const absl::Span<const int32_t> pages_;
};

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_KV_READER_H_
