#ifndef LOCKSTEP_KERNELS_CPU_KV_VIEW_H_
#define LOCKSTEP_KERNELS_CPU_KV_VIEW_H_

#include <algorithm>
#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/transpose.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// to[i](=) = from[i], i in [0, n).
template <class V>
void StoreElements(const float* from, int64_t n, float* to) {
  std::copy_n(from, n, to);
}
template <class V>
void StoreElements(const float* from, int64_t n, uint16_t* to) {
  RoundElements<V>(from, n, to);
}

// to[d * page_size + i](=) = k[i * stride + d]: keys of a page, lanes across positions.
template <class V>
void StoreKeys(const float* k, int64_t stride, int64_t positions, int64_t head_dim, float* to,
               int64_t page_size) {
  Transpose<V>(k, stride, positions, head_dim, to, page_size);
}
template <class V>
void StoreKeys(const float* k, int64_t stride, int64_t positions, int64_t head_dim, uint16_t* to,
               int64_t page_size) {
  for (int64_t i = 0; i < positions; ++i) {
    for (int64_t d = 0; d < head_dim; ++d) to[d * page_size + i] = NarrowToBf16(k[i * stride + d]);
  }
}

// One KV head of one sequence: where its keys and values lie in the pages, as floats or bf16.
// Borrows the pages.
template <class V, class Element>
struct KvView {
  using T = typename Element::Type;

  const KvPages& kv;
  const int32_t* pages;
  int64_t head;

  // [head_dim][page_size], keys of the page that holds `position`.
  T* Keys(int64_t position) const { return Page(position) + head * kv.head_dim * kv.page_size; }
  // [page_size][head_dim].
  T* Values(int64_t position) const {
    return Page(position) + (kv.kv_heads + head) * kv.head_dim * kv.page_size;
  }
  T* Page(int64_t position) const {
    return static_cast<T*>(kv.data) + pages[position / kv.page_size] * kv.page_stride;
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
  // position to the next. A copy, or rounded.
  void Write(int64_t first, int64_t count, const float* k, const float* v, int64_t stride) const {
    ForEachPage(first, first + count, [&](int64_t position, int64_t offset, int64_t positions) {
      const int64_t from = (position - first) * stride;
      StoreKeys<V>(k + from, stride, positions, kv.head_dim, Keys(position) + offset, kv.page_size);
      T* values = Values(position) + offset * kv.head_dim;
      for (int64_t i = 0; i < positions; ++i) {
        StoreElements<V>(v + from + i * stride, kv.head_dim, values + i * kv.head_dim);
      }
    });
  }
};

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_KV_VIEW_H_
