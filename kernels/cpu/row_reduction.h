#ifndef LOCKSTEP_KERNELS_CPU_ROW_REDUCTION_H_
#define LOCKSTEP_KERNELS_CPU_ROW_REDUCTION_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Reductions over the n elements of a row in the one shape that n alone decides: blocks of
// kRowBlock, in each kRowChains strided chains from +0, a tree over the chains, blocks added
// ascending. A vector holds neighbouring chains, so a strip of kRowChains elements is a few
// independent vectors.

// The tree: chains c and c + width are added for width 32, 16, ... 1.
template <class V>
inline float AddChains(V (&chains)[kRowChains / V::kLanes]) {
  for (int64_t width = kRowChains / V::kLanes / 2; width >= 1; width /= 2) {
    for (int64_t v = 0; v < width; ++v) chains[v] = chains[v] + chains[v + width];
  }
  float last[V::kLanes];
  chains[0].Store(last);
  for (int64_t width = V::kLanes / 2; width >= 1; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) last[lane] = last[lane] + last[lane + width];
  }
  return last[0];
}

// extend(i, lanes, chain) is `chain` with elements [i, i + V::kLanes) taken in, one a lane.
template <class V, class Extend>
inline float RowReduce(int64_t n, Extend extend) {
  constexpr int64_t kVectors = kRowChains / V::kLanes;
  float sum = 0.0f;
  for (int64_t begin = 0; begin < n; begin += kRowBlock) {
    const int64_t end = std::min(begin + kRowBlock, n);
    V chains[kVectors];
    for (V& chain : chains) chain = V::Zero();
    int64_t strip = begin;
    for (; strip + kRowChains <= end; strip += kRowChains) {
      for (int64_t v = 0; v < kVectors; ++v) {
        chains[v] = extend(strip + v * V::kLanes, AllLanes<V>{}, chains[v]);
      }
    }
    for (int64_t v = 0; strip + v * V::kLanes < end; ++v) {
      const int64_t i = strip + v * V::kLanes;
      const FirstLanes<V> lanes{std::min(V::kLanes, end - i)};
      chains[v] = lanes.Keep(extend(i, lanes, chains[v]), chains[v]);
    }
    sum = sum + AddChains<V>(chains);
  }
  return sum + 0.0f;
}

template <class V>
inline float RowSum(const float* x, int64_t n) {
  return RowReduce<V>(n, [x](int64_t i, auto lanes, V chain) { return chain + lanes.Load(x + i); });
}

template <class V>
inline float RowDot(const float* a, const float* b, int64_t n) {
  return RowReduce<V>(n, [a, b](int64_t i, auto lanes, V chain) {
    return Fma(lanes.Load(a + i), lanes.Load(b + i), chain);
  });
}

// The largest value_at(i, lanes), -inf if there is none; NaN never wins. A maximum is the same in
// any order, but for the sign of a zero, which no caller's result keeps.
template <class V, class ValueAt>
inline float RowMax(int64_t n, ValueAt value_at) {
  const V lowest = V::Broadcast(-std::numeric_limits<float>::infinity());
  V max = lowest;
  ForEachVector<V>(
      n, [&](int64_t i, auto lanes) { max = Max(max, lanes.Keep(value_at(i, lanes), lowest)); });
  float values[V::kLanes];
  max.Store(values);
  for (int64_t width = V::kLanes / 2; width >= 1; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) {
      values[lane] = values[lane + width] > values[lane] ? values[lane + width] : values[lane];
    }
  }
  return values[0];
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ROW_REDUCTION_H_
