#ifndef LOCKSTEP_KERNELS_BF16_H_
#define LOCKSTEP_KERNELS_BF16_H_

#include <bit>
#include <cstdint>

namespace lockstep::kernels {

// bfloat16 is the upper half of an fp32: the same exponents, 8 bits of precision.

// Always inlined: files compiled for different instruction sets include this one.
[[gnu::always_inline]] inline float WidenBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The nearest bf16, ties to even, as fp32 bits whose lower half is zero. Every NaN becomes 0x7fc0,
// a denormal a zero of its sign, what is too large an infinity.
[[gnu::always_inline]] inline uint32_t RoundToBf16Bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fc00000;
  if (magnitude < 0x00800000) return bits & 0x80000000;
  return (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
}
[[gnu::always_inline]] inline float RoundToBf16(float x) {
  return std::bit_cast<float>(RoundToBf16Bits(x));
}
[[gnu::always_inline]] inline uint16_t NarrowToBf16(float x) {
  return static_cast<uint16_t>(RoundToBf16Bits(x) >> 16);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_BF16_H_
