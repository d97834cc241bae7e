#ifndef LOCKSTEP_KERNELS_CPU_LANES_H_
#define LOCKSTEP_KERNELS_CPU_LANES_H_

#include <algorithm>
#include <cstdint>

namespace lockstep::kernels::cpu {

// How a loop body reads and writes memory at an index: a whole vector, or the first lanes of one at
// the end of an array, where nothing past the end is touched. Bodies are written once, for both.

template <class V>
struct AllLanes {
  V Load(const float* from) const { return V::Load(from); }
  V Load(const uint16_t* from) const { return V::LoadBf16(from); }
  void Store(V value, float* to) const { value.Store(to); }
  // REQUIRES: `value` is rounded to bf16.
  void Store(V value, uint16_t* to) const { value.StoreBf16(to); }
  // `value` in the lanes that exist, `other` elsewhere.
  V Keep(V value, V /*other*/) const { return value; }
  static int64_t Count() { return V::kLanes; }
};

template <class V>
struct FirstLanes {
  int64_t count;

  V Load(const float* from) const { return V::LoadFirst(from, count); }
  V Load(const uint16_t* from) const { return V::LoadFirstBf16(from, count); }
  void Store(V value, float* to) const { value.StoreFirst(to, count); }
  void Store(V value, uint16_t* to) const { value.StoreFirstBf16(to, count); }
  V Keep(V value, V other) const { return Select(V::Mask::First(count), value, other); }
  int64_t Count() const { return count; }
};

// Calls body(i, lanes) for [0, n) in steps of a vector.
template <class V, class Body>
inline void ForEachVector(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) body(i, AllLanes<V>{});
  if (i < n) body(i, FirstLanes<V>{n - i});
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_LANES_H_
