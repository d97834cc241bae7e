// Goal: rounding to bf16 is to the nearest, ties to even, over the whole range, and its edges are
// what docs/numerics.md says. Method: every upper half beside the lower halves where the decision
// turns, against the two neighbours' distances in double.

#include "kernels/bf16.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace lockstep::kernels {
namespace {

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// The nearest of the two bf16 numbers around a normal `x`, the even one of two as near. An infinity
// stands for 2^128.
uint32_t Nearest(float x) {
  const auto value = [](uint32_t bits) {
    if ((bits & 0x7fffffff) != 0x7f800000) return static_cast<double>(FromBits(bits));
    return bits >> 31 != 0 ? -0x1p128 : 0x1p128;
  };
  const uint32_t toward_zero = std::bit_cast<uint32_t>(x) & 0xffff0000;
  const uint32_t away = toward_zero + 0x10000;
  const double below = std::abs(x - value(toward_zero));
  const double above = std::abs(value(away) - x);
  if (below != above) return below < above ? toward_zero : away;
  return (toward_zero >> 16 & 1) == 0 ? toward_zero : away;
}

TEST(Bf16Test, EveryNormalNumberGoesToTheNearestTiesToEven) {
  int64_t ties = 0;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    const uint32_t exponent = upper >> 7 & 0xff;
    if (exponent == 0 || exponent == 0xff) continue;
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float x = FromBits(upper << 16 | lower);
      ASSERT_EQ(RoundToBf16Bits(x), Nearest(x)) << std::hex << (upper << 16 | lower);
      ties += lower == 0x8000 ? 1 : 0;
    }
  }
  EXPECT_EQ(ties, 2 * 254 * 128);
}

TEST(Bf16Test, Edges) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundToBf16Bits(0.0f), 0u);
  EXPECT_EQ(RoundToBf16Bits(-0.0f), 0x80000000u);
  EXPECT_EQ(RoundToBf16Bits(kInf), 0x7f800000u);
  EXPECT_EQ(RoundToBf16Bits(-kInf), 0xff800000u);
  // The largest finite float is nearer to 2^128 than to the largest bf16.
  EXPECT_EQ(RoundToBf16Bits(std::numeric_limits<float>::max()), 0x7f800000u);
  EXPECT_EQ(RoundToBf16Bits(FromBits(0x7f7f7fff)), 0x7f7f0000u);
  // Denormals are zeros of their sign, also those that would round to the smallest normal number.
  EXPECT_EQ(RoundToBf16Bits(FromBits(0x00000001)), 0u);
  EXPECT_EQ(RoundToBf16Bits(FromBits(0x007fffff)), 0u);
  EXPECT_EQ(RoundToBf16Bits(FromBits(0x807fffff)), 0x80000000u);
  EXPECT_EQ(RoundToBf16Bits(FromBits(0x00800000)), 0x00800000u);
  // Every NaN is the one NaN: signalling, negative, and one whose payload is in the lower half
  // alone.
  for (const uint32_t nan : {0x7fc00000u, 0x7f800001u, 0xffc00000u, 0xff80ffffu, 0x7fffffffu}) {
    EXPECT_EQ(RoundToBf16Bits(FromBits(nan)), 0x7fc00000u) << std::hex << nan;
  }
}

TEST(Bf16Test, NarrowAndWidenAreInverse) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float wide = WidenBf16(static_cast<uint16_t>(half));
    if (std::isnan(wide) || (half & 0x7f80) == 0) continue;
    EXPECT_EQ(NarrowToBf16(wide), half);
  }
}

}  // namespace
}  // namespace lockstep::kernels
