// Goal: Llama 3.1's stretched frequencies are those of transformers, bit for bit, and enter the
// tables. Method: numbers that transformers 5.24 printed for Llama 3.2 1B (head_dim 64, theta
// 500,000); tables against frequencies by hand.
#include "core/model/rope_tables.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

TEST(StretchedFrequencyTest, IsTransformers) {
  const Llama3RopeScaling scaling = {.factor = 32,
                                     .low_frequency_factor = 1,
                                     .high_frequency_factor = 4,
                                     .original_context = 8192};
  struct Case {
    float frequency;
    float stretched;
  };
  const Case cases[] = {
      // Waves up to 2,048 positions stay.
      {1.0f, 1.0f},
      {0.0249554086f, 0.0249554086f},
      {0.00321144611f, 0.00321144611f},
      // Up to 8,192 they blend.
      {0.0021311196f, 0.00129054801f},
      {0.00141421345f, 0.000429556705f},
      {0.000938473851f, 9.70828623e-05f},
      // Longer ones are divided.
      {0.000622772437f, 1.94616387e-05f},
      {3.01385808e-06f, 9.41830649e-08f},
  };
  for (const Case& c : cases) EXPECT_EQ(StretchedFrequency(scaling, c.frequency), c.stretched);

  // One where a quotient rounded once would show (head_dim 64, theta 10,000, i = 22).
  const Llama3RopeScaling other = {
      .factor = 4, .low_frequency_factor = 1, .high_frequency_factor = 4, .original_context = 4096};
  EXPECT_EQ(StretchedFrequency(other, 0.001778279431f), 0.0005153711535967886f);
}

TEST(RopeTablesTest, AreMadeOfStretchedFrequencies) {
  ModelConfig config = TinyModelConfig(TinyFamily::kQwen3);
  ASSERT_TRUE(config.rope_scaling.has_value());
  const RopeTables stretched(config);
  const int64_t half = config.head_dim / 2;
  int differ = 0;
  const Llama3RopeScaling scaling = *config.rope_scaling;
  config.rope_scaling.reset();
  const RopeTables plain(config);
  for (int64_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    const float frequency =
        1.0f / static_cast<float>(std::pow(config.rope_theta, static_cast<double>(exponent)));
    const float angle = 7.0f * StretchedFrequency(scaling, frequency);
    EXPECT_EQ(stretched.cosine()[7 * half + i],
              static_cast<float>(std::cos(static_cast<double>(angle))));
    differ += stretched.sine()[7 * half + i] != plain.sine()[7 * half + i] ? 1 : 0;
  }
  EXPECT_GT(differ, 0);
  EXPECT_LT(differ, half);
}

}  // namespace
}  // namespace lockstep
