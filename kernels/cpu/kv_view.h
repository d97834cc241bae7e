#ifndef LOCKSTEP_KERNELS_CPU_KV_VIEW_H_
#define LOCKSTEP_KERNELS_CPU_KV_VIEW_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/transpose.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// One KV head of one sequence: where its keys and values lie in the pages. Borrows the pages. A
// template only so that each instruction set has a copy of its own (simd_avx2.h).
template <class V>
struct KvView {
  const KvPages& kv;
  const int32_t* pages;
  int64_t head;

  // [head_dim][page_size], keys of the page that holds `position`.
  float* Keys(int64_t position) const { return Page(position) + head * kv.head_dim * kv.page_size; }
  // [page_size][head_dim].
  float* Values(int64_t position) const {
    return Page(position) + (kv.kv_heads + head) * kv.head_dim * kv.page_size;
  }
  float* Page(int64_t position) const {
    return kv.data + pages[position / kv.page_size] * kv.page_stride;
  }

  // Calls body(position, offset, count) for the parts of [begin, end) that lie in one page, from
  // `offset` within it.
  template <class Body>
  void ForEachPage(int64_t begin, int64_t end, Body body) const {
    for (int64_t position = begin; position < end;) {
      const int64_t offset = position % kv.page_size;
      const int64_t count = std::min(kv.page_size - offset, end - position);
      body(position, offset, count);
      position += count;
    }
  }

  // Writes keys and values of `count` positions from `first`; k and v have `stride` floats from one
  // position to the next. A copy.
  void Write(int64_t first, int64_t count, const float* k, const float* v, int64_t stride) const {
    ForEachPage(first, first + count, [&](int64_t position, int64_t offset, int64_t positions) {
      const int64_t from = (position - first) * stride;
      Transpose<V>(k + from, stride, positions, kv.head_dim, Keys(position) + offset, kv.page_size);
      float* values = Values(position) + offset * kv.head_dim;
      for (int64_t i = 0; i < positions; ++i) {
        std::copy_n(v + from + i * stride, kv.head_dim, values + i * kv.head_dim);
      }
    });
  }
};

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_KV_VIEW_H_
