// Goal: logits, log-probs, loss and every gradient are those of transformers, for each family, to
// within rounding. Method: directories that transformers itself wrote (tests/golden), loaded and
// run through Forward, Head and Backward under both backends.
//
// The tolerance. Let u = 2^-24. A product's chain of K roundings gives w x with w off by a relative
// error of about sqrt(K) u (each rounding is a random error of up to u; Higham and Mary 2019, "A
// new approach to probabilistic rounding error analysis"). Between two products come at most
// kOpsBetween more operations (softmax or silu, norm, rotation, residual), each of which can be
// moved into the next weight the same way. So what either side computed is the exact result for
// weights off by
//     eta = (sqrt(K) + kOpsBetween) u,     K the longest chain: attention over 150 keys.
// The fixture holds each result's sensitivity S: its root-mean-square movement per unit of such an
// error in all weights at once, found in double precision; depth and conditioning are in it. Two
// sides that err independently differ by no more than 2 eta S in root mean square. Single elements
// are held to six times that, as deviations of a normal distribution.
//
// Profile bf16 is held against the same fp32 results. Up to three numbers of a product were rounded
// to 8 bits, each by a relative error of up to 2^-9: the weight, what it is multiplied with, and K
// or V on the way to the next product. Moved into the weight they add 3 * 2^-9 to eta.
//
// Negative controls: a weight off by 1/1000 and rotary pairs (2i, 2i + 1) instead of
// (i, i + head_dim / 2) must both be red.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/hf_directory.h"
#include "core/model/model_config.h"
#include "core/model/safetensors.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/core/model/model_runner.h"
#include "tests/support/instruction_sets.h"

namespace lockstep {
namespace {

using kernels::InstructionSet;

constexpr double kUnitRoundoff = 0x1p-24;
constexpr double kLongestChain = 150;
constexpr double kOpsBetween = 8;
constexpr double kElementDeviations = 6;

using Results = std::map<std::string, std::vector<float>>;

template <typename T>
std::vector<T> Values(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry& entry = file.entries().at(name);
  std::vector<T> values(entry.bytes / sizeof(T));
  const absl::Span<char> bytes(reinterpret_cast<char*>(values.data()), values.size() * sizeof(T));
  const absl::Status read = file.Read(entry, 0, bytes);
  EXPECT_TRUE(read.ok()) << read;
  return values;
}

class Golden {
 public:
  explicit Golden(const std::string& name)
      : directory_(absl::StrCat("tests/golden/", name)),
        file_(*SafetensorsFile::Open(directory_ + "/golden.safetensors")),
        config_(*ReadModelConfig(directory_)) {}

  const ModelConfig& config() const { return config_; }
  // The same model with RoPE as if it were not stretched.
  void Unscale() { config_.rope_scaling.reset(); }
  std::vector<float> Floats(const std::string& name) const { return Values<float>(file_, name); }
  const SafetensorsFile& file() const { return file_; }

  std::vector<TrainingDatum> Data() const {
    const auto tokens = Values<int32_t>(file_, "tokens");
    const auto targets = Values<int32_t>(file_, "targets");
    const auto weights = Floats("weights");
    std::vector<TrainingDatum> data;
    int64_t begin = 0;
    for (const int32_t length : Values<int32_t>(file_, "sequence_lengths")) {
      TrainingDatum& datum = data.emplace_back();
      datum.tokens.assign(&tokens[begin], &tokens[begin] + length);
      datum.targets.assign(&targets[begin], &targets[begin] + length);
      for (int64_t i = 0; i < length; ++i) datum.coefficients.push_back(-weights[begin + i]);
      begin += length;
    }
    return data;
  }

  void Load(OptimizerState& state) const {
    const auto directory = HfDirectory::Open(directory_, config_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    kernels::Serial serial;
    const absl::Status read = directory->Read(serial, state.params(), state.masters());
    ASSERT_TRUE(read.ok()) << read;
  }

 private:
  const std::string directory_;
  const SafetensorsFile file_;
  ModelConfig config_;
};

// All that the fixture holds, computed by us. `spoil` may change the weights first.
Results Compute(
    const Golden& golden, InstructionSet set,
    absl::FunctionRef<void(OptimizerState&)> spoil = [](OptimizerState&) {},
    kernels::Profile profile = kernels::Profile::kFp32) {
  kernels::Serial serial;
  const auto selected = kernels::SelectKernels(serial, set, profile);
  EXPECT_TRUE(selected.ok()) << selected.status();
  ModelRunner runner(golden.config(), *selected->kernels, {.stages = 2},
                     [&](OptimizerState& state) {
                       golden.Load(state);
                       spoil(state);
                     });
  const std::vector<TrainingDatum> data = golden.Data();
  TokenBatch batch;
  int32_t next_page = 0;
  for (const TrainingDatum& datum : data) {
    const int64_t length = static_cast<int64_t>(datum.tokens.size());
    batch.Append(datum.tokens.data(), length, 0, PagesFrom(next_page, length, 16));
    next_page += static_cast<int32_t>(batch.sequences.back().pages.size());
  }
  Results results;
  results["logits"] = runner.Logits(batch);
  results["log_prob"] = runner.Accumulate(data).log_prob;
  double loss = 0;
  size_t row = 0;
  for (const TrainingDatum& datum : data) {
    for (const float coefficient : datum.coefficients) {
      loss += static_cast<double>(coefficient) * results["log_prob"][row++];
    }
  }
  results["loss"] = {static_cast<float>(loss)};
  for (auto& [name, gradient] : runner.CombinedGradients()) {
    results["grad." + name] = std::move(gradient);
  }
  return results;
}

// Failure names the worst result and by how much it exceeds its tolerance.
testing::AssertionResult WithinRounding(const Results& results, const Golden& golden,
                                        double operand_roundoff = 0) {
  double worst = 0;
  std::string worst_name;
  for (const auto& [name, values] : results) {
    const std::vector<float> expected = golden.Floats(name);
    if (expected.size() != values.size()) {
      return testing::AssertionFailure() << name << " has " << values.size() << " elements";
    }
    const double eta = (std::sqrt(kLongestChain) + kOpsBetween) * kUnitRoundoff + operand_roundoff;
    const double tolerance = 2 * eta * golden.Floats("sensitivity." + name)[0];
    double squares = 0;
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(static_cast<double>(values[i]) - expected[i]);
      squares += difference * difference;
      largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
    }
    const double root_mean_square = std::sqrt(squares / static_cast<double>(values.size()));
    const double excess = std::max(std::isnan(squares) ? INFINITY : root_mean_square / tolerance,
                                   largest / (kElementDeviations * tolerance));
    if (excess >= worst) {
      worst = excess;
      worst_name = name;
    }
  }
  return (worst <= 1 ? testing::AssertionSuccess() : testing::AssertionFailure())
         << worst_name << " differs by " << worst << " times its tolerance";
}

class GoldenTest : public testing::TestWithParam<std::tuple<const char*, InstructionSet>> {
 protected:
  void SetUp() override { LOCKSTEP_SKIP_UNLESS_SUPPORTED(set_); }

  const Golden golden_{std::get<0>(GetParam())};
  const InstructionSet set_ = std::get<1>(GetParam());
};

TEST_P(GoldenTest, ReadsTheConfigThatTransformersWrote) {
  const ModelConfig& config = golden_.config();
  const std::string name = std::get<0>(GetParam());
  EXPECT_EQ(config.architecture, name == "mistral" ? "MistralForCausalLM"
                                 : name == "qwen2" ? "Qwen2ForCausalLM"
                                 : name == "qwen3" ? "Qwen3ForCausalLM"
                                                   : "LlamaForCausalLM");
  EXPECT_EQ(config.vocab_size, 67);
  EXPECT_EQ(config.hidden_size, name == "qwen2" ? 64 : 48);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.kv_head_count, 2);
  EXPECT_EQ(config.rope_theta, 500);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-5f);
  EXPECT_EQ(config.rope_scaling.has_value(), name == "llama3_rope");
  EXPECT_EQ(config.qkv_bias, name == "qwen2");
  EXPECT_EQ(config.qk_norm, name == "qwen3");
  EXPECT_EQ(config.tie_word_embeddings,
            name == "llama_tied" || name == "llama3_rope" || name == "qwen3");
}

TEST_P(GoldenTest, EveryResultIsTransformersWithinRounding) {
  const Results results = Compute(golden_, set_);
  EXPECT_EQ(results.size(), 3 + ModelParams(golden_.config()).size());
  const auto within = WithinRounding(results, golden_);
  EXPECT_TRUE(within);
  RecordProperty("worst", within.message());
}

// The largest of one matrix; a small one may well be off by more than this and hide in rounding.
TEST_P(GoldenTest, NegativeControlOneWeightOffByAThousandth) {
  const Results results = Compute(golden_, set_, [](OptimizerState& state) {
    if (state.head_index() < 0) return;
    const int index = state.layer_index(0) + state.layer_tensors().attention_out;
    float* weights = state.master(index);
    float* largest = std::max_element(weights, weights + state.params()[index].size());
    *largest *= 1.001f;
  });
  EXPECT_FALSE(WithinRounding(results, golden_));
}

TEST(GoldenBf16Test, EveryResultIsWithinTheRoundingOfOperands) {
  constexpr double kOperandRoundoff = 3 * 0x1p-9;
  for (const char* name :
       {"llama_tied", "llama_untied", "llama3_rope", "mistral", "qwen2", "qwen3"}) {
    const Golden golden(name);
    const auto nothing = [](OptimizerState&) {};
    const Results bf16 =
        Compute(golden, InstructionSet::kReference, nothing, kernels::Profile::kBf16);
    EXPECT_TRUE(WithinRounding(bf16, golden, kOperandRoundoff)) << name;
    EXPECT_FALSE(WithinRounding(bf16, golden)) << name << ": the profile rounds nothing";
    // A quarter more in one matrix is a fault that such a tolerance must still see.
    const auto spoil = [](OptimizerState& state) {
      if (state.head_index() < 0) return;
      const int index = state.layer_index(0) + state.layer_tensors().attention_out;
      float* weights = state.master(index);
      for (int64_t i = 0; i < state.params()[index].size(); ++i) weights[i] *= 1.25f;
    };
    const Results spoilt =
        Compute(golden, InstructionSet::kReference, spoil, kernels::Profile::kBf16);
    EXPECT_FALSE(WithinRounding(spoilt, golden, kOperandRoundoff)) << name;
  }
}

// The small tensors that one family alone has, and the stretching of RoPE.
TEST(GoldenFamilyTest, NegativeControls) {
  const auto set = InstructionSet::kReference;
  const Golden qwen2("qwen2");
  EXPECT_FALSE(WithinRounding(Compute(qwen2, set,
                                      [](OptimizerState& state) {
                                        state.master(state.layer_index(0) +
                                                     state.layer_tensors().query_bias)[0] += 0.01f;
                                      }),
                              qwen2));
  const Golden qwen3("qwen3");
  EXPECT_FALSE(WithinRounding(Compute(qwen3, set,
                                      [](OptimizerState& state) {
                                        state.master(state.layer_index(0) +
                                                     state.layer_tensors().query_norm + 1)[3] +=
                                            0.01f;
                                      }),
                              qwen3));
  Golden llama3("llama3_rope");
  llama3.Unscale();
  EXPECT_FALSE(WithinRounding(Compute(llama3, set), llama3));
}

// Rows of q and k taken as pairs (2i, 2i + 1): the layout of GGUF, and of the Llama paper.
TEST_P(GoldenTest, NegativeControlOtherRotaryPairs) {
  const ModelConfig& config = golden_.config();
  const Results results = Compute(golden_, set_, [&](OptimizerState& state) {
    const auto interleave = [&](float* weight, int64_t heads) {
      const int64_t width = config.hidden_size;
      const int64_t half = config.head_dim / 2;
      for (int64_t head = 0; head < heads; ++head) {
        float* rows = weight + head * config.head_dim * width;
        const std::vector<float> original(rows, rows + config.head_dim * width);
        for (int64_t i = 0; i < config.head_dim; ++i) {
          const int64_t from = (i % half) * 2 + i / half;
          std::copy_n(&original[from * width], width, rows + i * width);
        }
      }
    };
    interleave(state.master(state.layer_index(0) + 1), config.head_count);
    interleave(state.master(state.layer_index(0) + 2), config.kv_head_count);
  });
  EXPECT_FALSE(WithinRounding(results, golden_));
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, GoldenTest,
    testing::Combine(testing::Values("llama_tied", "llama_untied", "llama3_rope", "mistral",
                                     "qwen2", "qwen3"),
                     testing::ValuesIn(kernels::InstructionSetsOf(kernels::Profile::kFp32))),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_",
                          std::string(kernels::InstructionSetName(std::get<1>(info.param))));
    });

}  // namespace
}  // namespace lockstep
