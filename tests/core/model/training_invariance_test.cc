// Goal: log-probs, entropies, every gradient, the norm's sums, the moments and the weights after
// steps depend on the data and their order alone (promise P2 of the design): not on how data are
// cut into micro-batches, on stages, threads, page size or backend. Method: bitwise against one
// micro-batch, one stage, one thread, reference kernels. Planted faults (a reduction over the
// micro-batch instead of the datum, a tied head added to the embedding too early, an optimizer that
// skips one stage's update) must turn the comparison red.
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/philox.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/core/model/model_runner.h"
#include "tests/support/forwarding_kernels.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::InstructionSet;
using kernels::Profile;

// Lengths on both sides of a chunk of 128 positions and of a page, and a datum of one token.
std::vector<TrainingDatum> Data() {
  std::vector<TrainingDatum> data;
  for (const int64_t length : {3, 130, 17, 1, 64, 128}) {
    const uint64_t seed = 1000 + length;
    TrainingDatum datum;
    datum.tokens = TinyTokens(seed, length);
    datum.targets = TinyTokens(seed + 1, length);
    for (int64_t i = 0; i < length; ++i) {
      // Of both signs, and 0 where a token is masked.
      const double u = PhiloxUniform(seed + 2, i, 0);
      datum.coefficients.push_back(u < 0.2 ? 0.0f : static_cast<float>(2 * u - 1.3));
    }
    datum.temperature = length == 17 ? 0.7f : 1.0f;
    data.push_back(datum);
  }
  return data;
}

// Everything a training step gives.
struct Outcome {
  Head::TokenStatistics statistics;
  GradientMap gradients;
  std::map<std::string, double> sums_of_squares;
};

void Append(Head::TokenStatistics& all, const Head::TokenStatistics& part) {
  const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(all.log_prob, part.log_prob);
  append(all.log_sum_exp, part.log_sum_exp);
  append(all.entropy, part.entropy);
}

// Micro-batches of these numbers of data, in order.
Head::TokenStatistics Accumulate(ModelRunner& runner, const std::vector<int>& micro_batches) {
  const std::vector<TrainingDatum> data = Data();
  Head::TokenStatistics all;
  size_t next = 0;
  for (const int count : micro_batches) {
    Append(all, runner.Accumulate(absl::MakeConstSpan(data).subspan(next, count)));
    next += count;
  }
  EXPECT_EQ(next, data.size());
  return all;
}

Outcome TrainOn(ModelRunner& runner, const std::vector<int>& micro_batches) {
  Outcome outcome;
  outcome.statistics = Accumulate(runner, micro_batches);
  outcome.gradients = runner.CombinedGradients();
  outcome.sums_of_squares = runner.SumsOfSquares();
  return outcome;
}

ModelRunner MakeRunner(const kernels::Kernels& kernels, const ModelRunner::Options& options,
                       TinyFamily family) {
  return ModelRunner(TinyModelConfig(family), kernels, options,
                     [](OptimizerState& state) { FillTinyWeights(23, state); });
}

const std::vector<int> kWhole = {6};

const Outcome& Expected(TinyFamily family, Profile profile = Profile::kFp32) {
  static auto* const kOutcomes = new std::map<std::pair<TinyFamily, Profile>, Outcome>;
  const std::pair key(family, profile);
  const auto found = kOutcomes->find(key);
  if (found != kOutcomes->end()) return found->second;
  ModelRunner runner = MakeRunner(KernelsOf(InstructionSet::kReference, profile), {}, family);
  return kOutcomes->emplace(key, TrainOn(runner, kWhole)).first->second;
}

testing::AssertionResult SameOutcome(const Outcome& actual, const Outcome& expected) {
  const auto& a = actual.statistics;
  const auto& e = expected.statistics;
  for (const auto& [name, values, wanted] :
       {std::tuple("log_prob", &a.log_prob, &e.log_prob),
        std::tuple("log_sum_exp", &a.log_sum_exp, &e.log_sum_exp),
        std::tuple("entropy", &a.entropy, &e.entropy)}) {
    if (auto same = SameBits(*values, *wanted); !same) return same << " (" << name << ")";
  }
  if (actual.gradients.size() != expected.gradients.size()) {
    return testing::AssertionFailure() << actual.gradients.size() << " gradients";
  }
  for (const auto& [name, gradient] : expected.gradients) {
    if (auto same = SameBits(actual.gradients.at(name), gradient); !same) {
      return same << " (gradient of " << name << ")";
    }
    if (actual.sums_of_squares.at(name) != expected.sums_of_squares.at(name)) {
      return testing::AssertionFailure() << "sum of squares of " << name;
    }
  }
  return testing::AssertionSuccess();
}

class TrainingInvarianceTest
    : public testing::TestWithParam<std::tuple<InstructionSet, TinyFamily, Profile>> {
 protected:
  void SetUp() override { LOCKSTEP_SKIP_UNLESS_SUPPORTED(std::get<0>(GetParam())); }
  const kernels::Kernels& Backend() const { return KernelsOf(std::get<0>(GetParam()), profile()); }
  TinyFamily family() const { return std::get<1>(GetParam()); }
  Profile profile() const { return std::get<2>(GetParam()); }
  ModelRunner Runner(const ModelRunner::Options& options) const {
    return MakeRunner(Backend(), options, family());
  }
};

TEST_P(TrainingInvarianceTest, EveryTensorHasAGradient) {
  for (const auto& [name, gradient] : Expected(family(), profile()).gradients) {
    EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float g) { return g != 0; }))
        << name;
    EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) {
      return std::isfinite(g);
    })) << name;
  }
}

TEST_P(TrainingInvarianceTest, MicroBatches) {
  std::vector<std::vector<int>> splits = {{1, 1, 1, 1, 1, 1}, {1, 3, 2}};
  // The reference is slow, and the same code above it is under test.
  if (std::get<0>(GetParam()) != InstructionSet::kReference) {
    splits.insert(splits.end(), {{6}, {2, 2, 2}, {4, 2}, {5, 1}});
  }
  for (const std::vector<int>& split : splits) {
    ModelRunner runner = Runner({});
    EXPECT_TRUE(SameOutcome(TrainOn(runner, split), Expected(family(), profile())))
        << split.size() << " parts";
  }
}

TEST_P(TrainingInvarianceTest, Stages) {
  for (const int64_t stages : {2, 3}) {
    ModelRunner runner = Runner({.stages = stages});
    EXPECT_TRUE(SameOutcome(TrainOn(runner, {2, 4}), Expected(family(), profile()))) << stages;
  }
}

TEST_P(TrainingInvarianceTest, Threads) {
  for (const int threads : {2, 3}) {
    ModelRunner runner = Runner({.threads = threads});
    EXPECT_TRUE(SameOutcome(TrainOn(runner, {3, 3}), Expected(family(), profile()))) << threads;
  }
}

TEST_P(TrainingInvarianceTest, PageSize) {
  for (const int64_t page_size : {8, 128}) {
    ModelRunner runner = Runner({.page_size = page_size});
    EXPECT_TRUE(SameOutcome(TrainOn(runner, kWhole), Expected(family(), profile()))) << page_size;
  }
}

// The log-prob of training is that of scoring through the forward in chunks.
TEST_P(TrainingInvarianceTest, LogProbsAreThoseOfChunkedInference) {
  const TrainingDatum datum = Data()[1];
  const int64_t length = static_cast<int64_t>(datum.tokens.size());
  ModelRunner runner = Runner({});
  kernels::Serial serial;
  std::vector<float> log_prob;
  for (int64_t begin = 0; begin < length; begin += 48) {
    const int64_t count = std::min<int64_t>(48, length - begin);
    TokenBatch batch;
    batch.Append(datum.tokens.data() + begin, count, begin, PagesFrom(0, length, 16));
    const std::vector<float> logits = runner.Logits(batch);
    const std::vector<float> ones(count, 1.0f);
    std::vector<float> part(count);
    std::vector<float> log_sum_exp(count);
    Backend().LogProb(serial, logits.data(), count, kTinyVocabSize, ones.data(),
                      datum.targets.data() + begin, log_sum_exp.data(), part.data(), nullptr);
    log_prob.insert(log_prob.end(), part.begin(), part.end());
  }
  const std::vector<float>& all = Expected(family(), profile()).statistics.log_prob;
  EXPECT_TRUE(SameBits(log_prob, absl::MakeConstSpan(all).subspan(3, length)));
}

constexpr int64_t kSteps = 3;

// A model that took kSteps steps the canonical way, and the digest it began with.
struct Trained {
  ModelRunner runner;
  kernels::Digest128 before;
  std::vector<float> log_prob;  // of the data, under the weights it ended with
};

Trained& TrainedExpectation(TinyFamily family, Profile profile) {
  static auto* const kTrained =
      new std::map<std::pair<TinyFamily, Profile>, std::unique_ptr<Trained>>;
  std::unique_ptr<Trained>& trained = (*kTrained)[{family, profile}];
  if (trained != nullptr) return *trained;
  trained.reset(
      new Trained{MakeRunner(KernelsOf(InstructionSet::kReference, profile), {}, family), {}, {}});
  trained->before = trained->runner.WeightsDigest();
  for (int64_t t = 1; t <= kSteps; ++t) {
    Accumulate(trained->runner, kWhole);
    trained->runner.Step(t);
  }
  trained->log_prob = Accumulate(trained->runner, kWhole).log_prob;
  return *trained;
}

TEST_P(TrainingInvarianceTest, WeightsAndMomentsAfterThreeSteps) {
  Trained& expected = TrainedExpectation(family(), profile());
  ModelRunner runner = Runner({.stages = 2, .threads = 2});
  EXPECT_EQ(runner.WeightsDigest(), expected.before);
  for (int64_t t = 1; t <= kSteps; ++t) {
    Accumulate(runner, {1, 2, 3});
    runner.Step(t);
  }
  EXPECT_FALSE(expected.runner.WeightsDigest() == expected.before);
  EXPECT_EQ(runner.WeightsDigest(), expected.runner.WeightsDigest());
  EXPECT_EQ(runner.MomentsDigest(), expected.runner.MomentsDigest());
  for (const ParamSpec& spec : ModelParams(TinyModelConfig(family()))) {
    EXPECT_TRUE(SameBits(runner.Masters(spec.name), expected.runner.Masters(spec.name)))
        << spec.name;
  }
  // The new weights serve: the same forward under them, and another than before.
  EXPECT_TRUE(SameBits(Accumulate(runner, {2, 2, 2}).log_prob, expected.log_prob));
  EXPECT_FALSE(SameBits(expected.log_prob, Expected(family(), profile()).statistics.log_prob));
}

// Every set trains a Llama. The other families, on which the expectations are computed by the
// reference, run on AVX2 alone: what differs between sets lies below them.
std::vector<std::tuple<InstructionSet, TinyFamily, Profile>> Cases() {
  std::vector<std::tuple<InstructionSet, TinyFamily, Profile>> cases;
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    for (const InstructionSet set : kernels::InstructionSetsOf(profile)) {
      cases.emplace_back(set, TinyFamily::kTied, profile);
    }
    for (const TinyFamily family : {TinyFamily::kUntied, TinyFamily::kQwen2, TinyFamily::kQwen3}) {
      cases.emplace_back(InstructionSet::kAvx2, family, profile);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Backends, TrainingInvarianceTest, testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return absl::StrCat(
                               std::string(kernels::InstructionSetName(std::get<0>(info.param))),
                               "_", Name(std::get<1>(info.param)), "_",
                               std::string(kernels::ProfileName(std::get<2>(info.param))));
                         });

// Planted faults.

// Weight gradients reduced over the micro-batch instead of datum by datum (field notes, B2).
class ReducesOverTheMicroBatch : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void MatMulBackwardWeight(Parallel& p, const float* dy, const float* x, Span<int64_t> data,
                            int64_t n, int64_t k, float* dw) const override {
    const int64_t whole[] = {data.front(), data.back()};
    ForwardingKernels::MatMulBackwardWeight(p, dy, x, whole, n, k, dw);
  }
};

// An optimizer that forgets large tensors' second moment.
class ForgetsMoments : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void AdamW(Parallel& p, const kernels::AdamWScalars& scalars, int64_t n, const float* gradient,
             float* master, float* moment1, float* moment2) const override {
    ForwardingKernels::AdamW(p, scalars, n, gradient, master, moment1, moment2);
    if (n > 1000) std::fill_n(moment2, n, 0.0f);
  }
};

TEST(TrainingNegativeControlTest, ReducingOverTheMicroBatchTurnsSplitsRed) {
  const ReducesOverTheMicroBatch faulty(KernelsOf(InstructionSet::kScalar));
  ModelRunner alone = MakeRunner(faulty, {}, TinyFamily::kTied);
  EXPECT_TRUE(SameOutcome(TrainOn(alone, {1, 1, 1, 1, 1, 1}), Expected(TinyFamily::kTied)))
      << "with one datum a micro-batch the fault does nothing";
  ModelRunner together = MakeRunner(faulty, {}, TinyFamily::kTied);
  EXPECT_FALSE(SameOutcome(TrainOn(together, {2, 2, 2}), Expected(TinyFamily::kTied)));
}

TEST(TrainingNegativeControlTest, ForgottenMomentsTurnTheDigestsRed) {
  const kernels::Kernels& sound = KernelsOf(InstructionSet::kScalar);
  const ForgetsMoments faulty(sound);
  ModelRunner expected = MakeRunner(sound, {}, TinyFamily::kTied);
  ModelRunner broken = MakeRunner(faulty, {}, TinyFamily::kTied);
  for (int64_t t = 1; t <= 2; ++t) {
    for (ModelRunner* runner : {&expected, &broken}) {
      Accumulate(*runner, kWhole);
      runner->Step(t);
    }
    EXPECT_EQ(broken.WeightsDigest() == expected.WeightsDigest(), t == 1)
        << "the first step does not read the moments, the second does";
    EXPECT_FALSE(broken.MomentsDigest() == expected.MomentsDigest());
  }
}

TEST(TrainingNegativeControlTest, AnotherOrderOfDataTurnsItRed) {
  ModelRunner runner = MakeRunner(KernelsOf(InstructionSet::kScalar), {}, TinyFamily::kTied);
  std::vector<TrainingDatum> data = Data();
  std::swap(data[1], data[4]);
  runner.Accumulate(data);
  const GradientMap gradients = runner.CombinedGradients();
  bool differs = false;
  for (const auto& [name, gradient] : Expected(TinyFamily::kTied).gradients) {
    differs = differs || !SameBits(gradients.at(name), gradient);
  }
  EXPECT_TRUE(differs);
}

// The head's gradient of a tied model added to the embedding's before the rest of the data: the
// same sum in another order, as an eager implementation would do on one stage.
TEST(TrainingNegativeControlTest, TyingTooEarlyTurnsItRed) {
  ModelRunner runner = MakeRunner(KernelsOf(InstructionSet::kScalar), {}, TinyFamily::kTied);
  const std::vector<TrainingDatum> data = Data();
  GradientMap eager;
  for (const TrainingDatum& datum : data) {
    ModelRunner one = MakeRunner(KernelsOf(InstructionSet::kScalar), {}, TinyFamily::kTied);
    one.Accumulate({&datum, 1});
    for (const auto& [name, gradient] : one.CombinedGradients()) {
      std::vector<float>& sum = eager[name];
      sum.resize(gradient.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
  }
  const std::string name = "model.embed_tokens.weight";
  EXPECT_FALSE(SameBits(eager.at(name), Expected(TinyFamily::kTied).gradients.at(name)));
}

}  // namespace
}  // namespace lockstep
