// Goal: the generator is Philox4x32-10, and numbers depend on (seed, position, sample index) alone.
// Method: the known-answer vectors that its authors publish with Random123, then bounds, distinct
// streams and the first two moments of the uniforms.
#include "core/model/philox.h"

#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(PhiloxTest, EqualsRandom123KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, BlockPlacesPositionBeforeSampleIndexLowWordsFirst) {
  EXPECT_EQ(PhiloxBlock(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformTakesTheHigh53BitsOfTheFirstTwoWords) {
  EXPECT_EQ(PhiloxUniform(0, 0, 0), std::ldexp(0xe169c58d6627e8d5 >> 11, -53));
}

TEST(PhiloxTest, StreamsOfSamplesPositionsAndSeedsDiffer) {
  std::set<double> seen;
  for (uint64_t seed : {0, 1}) {
    for (uint64_t sample = 0; sample < 32; ++sample) {
      for (uint64_t position = 0; position < 32; ++position) {
        seen.insert(PhiloxUniform(seed, position, sample));
      }
    }
  }
  EXPECT_EQ(seen.size(), 2u * 32 * 32);
}

TEST(PhiloxTest, UniformsHaveTheMomentsOfAUniform) {
  constexpr int kCount = 100000;
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = PhiloxUniform(7, i, 3);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    sum_of_squares += u * u;
  }
  // Six standard errors: variance 1/12 of u, 4/45 of u^2.
  EXPECT_NEAR(sum / kCount, 0.5, 6 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(sum_of_squares / kCount, 1.0 / 3, 6 * std::sqrt(4.0 / 45 / kCount));
}

}  // namespace
}  // namespace lockstep
