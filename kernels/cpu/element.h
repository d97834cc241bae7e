#ifndef LOCKSTEP_KERNELS_CPU_ELEMENT_H_
#define LOCKSTEP_KERNELS_CPU_ELEMENT_H_

#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// RoundToBf16 (kernels/bf16.h), lane by lane. Runs inside an FpEnvironment.
template <class V>
inline V RoundToBf16(V x) {
  using I = typename V::Int;
  const I bits = BitsOf(x);
  const I odd = ShiftRight<16>(bits) & I::Broadcast(1);
  const I upper_half = I::Broadcast(static_cast<int32_t>(0xffff0000));
  const V rounded = FromBits((bits + I::Broadcast(0x7fff) + odd) & upper_half);
  const V sign = FromBits(bits & I::Broadcast(static_cast<int32_t>(0x80000000)));
  // Denormals compare equal to 0 under DAZ.
  const V flushed = Select(x == V::Zero(), sign, rounded);
  return Select(IsNan(x), CanonicalNan<V>(), flushed);
}

// Lanes of (even, odd) pairs of bf16, 32 bits each.
template <class V>
inline V PairOf(V even, V odd) {
  using I = typename V::Int;
  const I low = ShiftRight<16>(BitsOf(RoundToBf16(even))) & I::Broadcast(0xffff);
  return FromBits(low | BitsOf(RoundToBf16(odd)));
}

// How a backend keeps packed weights, K and V (as floats, or as bf16, the upper halves of floats)
// and multiplies them. CpuKernels takes one of these as a parameter.
//
// A row of a panel holds kPositions reduced positions in each of its 32-bit lanes. The operand that
// meets it, broadcast lane by lane, has kSteps lanes for them. In one step the panel's lanes are
// multiplied with the operand's into a chain by Extend; in two, the odd one first, Weight<step> of
// the panel's lanes is.
struct FmaChain {
  template <class V>
  static V Extend(V factor, V weight, V chain) {
    return Fma(factor, weight, chain);
  }
};

struct Fp32Element : FmaChain {
  using Type = float;
  static constexpr Profile kProfile = Profile::kFp32;
  static constexpr int64_t kPositions = 1;
  static constexpr int64_t kSteps = 1;
};

// bf16 for sets without a dot instruction. The operand is rounded but kept as floats, which are
// broadcast without further work.
struct Bf16Element : FmaChain {
  using Type = uint16_t;
  static constexpr Profile kProfile = Profile::kBf16;
  static constexpr int64_t kPositions = 2;
  static constexpr int64_t kSteps = 2;

  template <int64_t kStep, class V>
  static V Weight(V lanes) {
    using I = typename V::Int;
    if constexpr (kStep == 0) return FromBits(ShiftLeft<16>(BitsOf(lanes)));
    return FromBits(BitsOf(lanes) & I::Broadcast(static_cast<int32_t>(0xffff0000)));
  }
};

// bf16 for sets whose vectors have DotPairs (VDPBF16PS), which does the same in one instruction.
// The operand is kept in pairs.
struct Bf16DotElement : Bf16Element {
  static constexpr int64_t kSteps = 1;

  template <class V>
  static V Extend(V factor, V weight, V chain) {
    return DotPairs(factor, weight, chain);
  }
};

// to[i](=) = RoundToBf16(from[i]), as floats or as bf16. `to` may be `from`.
template <class V, class T>
inline void RoundElements(const float* from, int64_t n, T* to) {
  ForEachVector<V>(
      n, [&](int64_t i, auto lanes) { lanes.Store(RoundToBf16(lanes.Load(from + i)), to + i); });
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ELEMENT_H_
