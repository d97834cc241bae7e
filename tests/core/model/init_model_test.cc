// Goal: init-model writes a directory that loads, with weights that are a function of seed and
// config alone and have the promised distribution, and a tokenizer whose ids are bytes. Method:
// read back what was written; compare bits over seeds, and with bits frozen here.
#include "core/model/init_model.h"

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/model/byte_tokenizer.h"
#include "core/model/hf_directory.h"
#include "gtest/gtest.h"
#include "kernels/serial.h"
#include "nlohmann/json.hpp"
#include "tests/support/temp_directory.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::vector<float> ReadTensor(const HfDirectory& directory, const ParamSpec& spec) {
  std::vector<float> values(spec.size());
  kernels::Serial serial;
  EXPECT_TRUE(directory.Read(serial, {spec}, values.data()).ok());
  return values;
}

TEST(InitModelTest, TinyByteLlamaIsTheModelOfTheQuickstart) {
  const ModelConfig config = TinyByteLlama();
  EXPECT_EQ(config.vocab_size, 259);
  EXPECT_EQ(config.hidden_size, 128);
  EXPECT_EQ(config.intermediate_size, 384);
  EXPECT_EQ(config.layer_count, 4);
  EXPECT_EQ(config.head_count * config.head_dim, 128);
  EXPECT_EQ(config.kv_head_count, 2);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.bos_token_id, 256);
  EXPECT_EQ(config.eos_token_ids, std::vector<int32_t>{257});
}

TEST(InitModelTest, WritesADirectoryThatLoads) {
  const TempDirectory directory;
  const std::string path = directory.PathOf("model");
  ASSERT_TRUE(InitModel(path, TinyByteLlama(), 1).ok());
  const auto config = ReadModelConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto opened = HfDirectory::Open(path, *config);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const ParamSpec& spec : ModelParams(*config)) {
    const std::vector<float> values = ReadTensor(*opened, spec);
    if (spec.rank == 1) {
      EXPECT_EQ(values, std::vector<float>(values.size(), 1.0f)) << spec.name;
      continue;
    }
    const bool ends_branch = spec.name.find("o_proj") != std::string::npos ||
                             spec.name.find("down_proj") != std::string::npos;
    const double deviation = ends_branch ? 0.02 / std::sqrt(8.0) : 0.02;
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    // Six standard errors of a mean and of a variance.
    const double count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 6 * deviation / std::sqrt(count)) << spec.name;
    EXPECT_NEAR(squares / count / (deviation * deviation), 1, 6 * std::sqrt(2 / count))
        << spec.name;
  }
}

TEST(InitModelTest, TheSeedNamesTheWeights) {
  const TempDirectory directory;
  ASSERT_TRUE(InitModel(directory.PathOf("a"), TinyByteLlama(), 1).ok());
  ASSERT_TRUE(InitModel(directory.PathOf("b"), TinyByteLlama(), 1).ok());
  ASSERT_TRUE(InitModel(directory.PathOf("c"), TinyByteLlama(), 2).ok());
  const std::string a = directory.Read("a/model.safetensors");
  EXPECT_TRUE(a == directory.Read("b/model.safetensors"));
  EXPECT_FALSE(a == directory.Read("c/model.safetensors"));
  EXPECT_EQ(InitModel(directory.PathOf("a"), TinyByteLlama(), 1).code(),
            absl::StatusCode::kAlreadyExists);
}

// Bits frozen when this was written, and equal to those of an independent program with another
// libm's log and cos: weights of a seed are the same on every machine, for good.
TEST(InitModelTest, BitsOfTheNormalDistributionAreFrozen) {
  float values[4];
  FillNormal(42, 1000, 4, 0.02, values);
  uint32_t bits[4];
  for (int i = 0; i < 4; ++i) bits[i] = std::bit_cast<uint32_t>(values[i]);
  EXPECT_EQ(bits[0], 0xbbb6db56u);
  EXPECT_EQ(bits[1], 0x3bc83bc0u);
  EXPECT_EQ(bits[2], 0xbcdba3c0u);
  EXPECT_EQ(bits[3], 0xbcd9f636u);
  // A run of elements does not depend on where it is cut.
  float tail[2];
  FillNormal(42, 1002, 2, 0.02, tail);
  EXPECT_EQ(tail[0], values[2]);
  EXPECT_EQ(tail[1], values[3]);
}

TEST(ByteTokenizerTest, VocabularyIsABijectionOfBytesAndSpecialsFollow) {
  const json tokenizer = json::parse(ByteTokenizer::TokenizerJson());
  const json& vocabulary = tokenizer["model"]["vocab"];
  ASSERT_EQ(vocabulary.size(), 256u);
  std::set<int> ids;
  for (const auto& [text, id] : vocabulary.items()) ids.insert(id.get<int>());
  EXPECT_EQ(ids.size(), 256u);
  EXPECT_EQ(*ids.rbegin(), 255);
  // Known pairs of the byte-level alphabet: 'A', space, line feed, 0xad and 0xff.
  EXPECT_EQ(vocabulary["A"], 'A');
  EXPECT_EQ(vocabulary["\u0120"], ' ');
  EXPECT_EQ(vocabulary["\u010a"], '\n');
  EXPECT_EQ(vocabulary["\u0143"], 0xad);
  EXPECT_EQ(vocabulary["\u00ff"], 0xff);
  EXPECT_TRUE(tokenizer["model"]["merges"].empty());
  const json& added = tokenizer["added_tokens"];
  ASSERT_EQ(added.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(added[i]["id"], 256 + i);
}

}  // namespace
}  // namespace lockstep
