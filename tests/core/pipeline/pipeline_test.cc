// Goal: the number of stages moves no bit of inference, training or an optimizer step; plans in
// flight come back in order; a stage that fails or a driver that leaves hangs nobody. Method: the
// same plans on one, two and three stages of the tiny model, compared bit by bit; each comparison
// has a neighbour that must differ.
#include "core/pipeline/pipeline.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/model/non_finite.h"
#include "core/train/micro_batches.h"
#include "gtest/gtest.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_pipeline.h"

namespace lockstep {
namespace {

constexpr int64_t kPageSize = 16;

// A prompt in pages of its own, with a token drawn behind its end, and every position scored.
InferencePlan PromptPlan(uint64_t seed, int64_t length, int32_t first_page) {
  const std::vector<int32_t> tokens = TinyTokens(seed, length + 1);
  std::vector<int32_t> pages;
  for (int64_t begin = 0; begin < length; begin += kPageSize) pages.push_back(first_page++);
  InferencePlan plan;
  plan.batch.Append(tokens.data(), length, 0, pages);
  for (int64_t i = 0; i < length; ++i) {
    LogitsRow score;
    score.kind = LogitsRow::Kind::kScore;
    score.row = static_cast<int32_t>(i);
    score.target = tokens[i + 1];
    score.sampling.temperature = 0.7f;
    plan.logits_rows.push_back(score);
  }
  LogitsRow sample;
  sample.row = static_cast<int32_t>(length - 1);
  sample.draw = {seed, 0, static_cast<uint64_t>(length)};
  plan.logits_rows.push_back(sample);
  return plan;
}

std::vector<LogitsResult> RunOne(Pipeline& pipeline, InferencePlan plan) {
  const absl::StatusOr<uint64_t> id = pipeline.Submit(std::move(plan));
  EXPECT_TRUE(id.ok()) << id.status();
  absl::StatusOr<FinishedInference> finished = pipeline.NextInference();
  EXPECT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->id, *id);
  EXPECT_TRUE(finished->non_finite.empty());
  return std::move(finished->results);
}

bool Same(const std::vector<LogitsResult>& a, const std::vector<LogitsResult>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const LogitsResult& x = a[i];
    const LogitsResult& y = b[i];
    if (x.token != y.token || !SameBits(x.logprob, y.logprob) ||
        !SameBits(x.raw_logprob, y.raw_logprob) || !SameBits(x.entropy, y.entropy)) {
      return false;
    }
  }
  return true;
}

bool Same(const TrainingReport& a, const TrainingReport& b) {
  std::vector<float> of_a;
  std::vector<float> of_b;
  const auto flatten = [](const TrainingReport& report, std::vector<float>* all) {
    for (const TokenLossOutputs& out : report.micro_batches) {
      for (const std::vector<float>* part : {&out.logprob, &out.entropy, &out.loss}) {
        all->insert(all->end(), part->begin(), part->end());
      }
    }
  };
  flatten(a, &of_a);
  flatten(b, &of_b);
  return !of_a.empty() && SameBits(of_a, of_b);
}

TrainingPlan MakeTrainingPlan(const std::vector<Datum>& data, int64_t micro_batch_size) {
  TrainingPlan plan;
  plan.micro_batches = MakeMicroBatches(data, micro_batch_size, kPageSize);
  return plan;
}

TrainingReport Train(Pipeline& pipeline, TrainingPlan plan) {
  absl::StatusOr<TrainingReport> report = pipeline.Train(std::move(plan));
  EXPECT_TRUE(report.ok()) << report.status();
  return *std::move(report);
}

std::vector<float> Masters(TinyPipeline& tiny) {
  std::vector<float> all;
  for (const ParamSpec& spec : ModelParams(tiny.config())) {
    const absl::StatusOr<Buffer<float>> values = tiny.pipeline().ReadTensor(spec.name);
    EXPECT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(values->size(), spec.size()) << spec.name;
    all.insert(all.end(), values->data(), values->data() + values->size());
  }
  return all;
}

class PipelineTest : public testing::TestWithParam<TinyFamily> {
 protected:
  TinyPipelineOptions Options(int64_t stages, int64_t threads = 1) const {
    TinyPipelineOptions options;
    options.family = GetParam();
    options.stages = stages;
    options.threads = threads;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, PipelineTest, testing::ValuesIn(kTinyFamilies),
                         [](const auto& info) { return Name(info.param); });

TEST_P(PipelineTest, InferenceDoesNotDependOnStagesOrThreads) {
  TinyPipeline one(Options(1));
  const std::vector<LogitsResult> expected = RunOne(one.pipeline(), PromptPlan(1, 40, 0));
  ASSERT_EQ(expected.size(), 41u);
  for (const auto& [stages, threads] : {std::pair{1, 3}, {2, 1}, {2, 3}, {3, 2}}) {
    TinyPipeline other(Options(stages, threads));
    EXPECT_EQ(other.pipeline().stage_count(), stages);
    EXPECT_TRUE(Same(RunOne(other.pipeline(), PromptPlan(1, 40, 5)), expected))
        << stages << " stages, " << threads << " threads";
  }
  EXPECT_FALSE(Same(RunOne(one.pipeline(), PromptPlan(2, 40, 0)), expected));
}

TEST_P(PipelineTest, TrainingDoesNotDependOnStagesOrMicroBatches) {
  const std::vector<Datum> data = TinyData(3, 7);
  TinyPipeline one(Options(1));
  const TrainingReport expected = Train(one.pipeline(), MakeTrainingPlan(data, 1));
  ASSERT_EQ(expected.micro_batches.size(), 7u);
  const absl::StatusOr<SumsOfSquares> expected_sums = one.pipeline().GradientNorm();
  ASSERT_TRUE(expected_sums.ok());
  // GradientNorm has combined the tied gradients; the step that follows must not do so again.
  OptimizerPlan step;
  step.new_version = 1;
  step.scalars.learning_rate = 0.01f;
  step.scalars.one_minus_beta1 = 1;
  step.scalars.one_minus_beta2 = 1;
  step.scalars.inverse_correction1 = step.scalars.inverse_correction2 = 1;
  step.scalars.epsilon = 1e-8f;
  const absl::StatusOr<OptimizerReport> expected_digests = one.pipeline().Optimize(step);
  ASSERT_TRUE(expected_digests.ok());
  const std::vector<float> expected_masters = Masters(one);

  for (const auto& [stages, size] : {std::pair{2, 1}, {2, 3}, {1, 7}, {3, 2}}) {
    TinyPipeline other(Options(stages));
    EXPECT_TRUE(Same(Train(other.pipeline(), MakeTrainingPlan(data, size)), [&, size = size] {
      // The same outputs, cut as this pipeline cuts them.
      TrainingReport cut;
      for (size_t d = 0; d < data.size(); ++d) {
        if (d % size == 0) cut.micro_batches.emplace_back();
        TokenLossOutputs& out = cut.micro_batches.back();
        const TokenLossOutputs& from = expected.micro_batches[d];
        out.logprob.insert(out.logprob.end(), from.logprob.begin(), from.logprob.end());
        out.entropy.insert(out.entropy.end(), from.entropy.begin(), from.entropy.end());
        out.loss.insert(out.loss.end(), from.loss.begin(), from.loss.end());
      }
      return cut;
    }()));
    const absl::StatusOr<SumsOfSquares> sums = other.pipeline().GradientNorm();
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(*sums, *expected_sums) << stages << " stages";
    const absl::StatusOr<OptimizerReport> digests = other.pipeline().Optimize(step);
    ASSERT_TRUE(digests.ok()) << digests.status();
    EXPECT_EQ(digests->weights_digest, expected_digests->weights_digest);
    EXPECT_EQ(digests->moments_digest, expected_digests->moments_digest);
    EXPECT_TRUE(SameBits(Masters(other), expected_masters));
  }
}

TEST_P(PipelineTest, OrderOfDataIsNoticed) {
  std::vector<Datum> data = TinyData(3, 7);
  TinyPipeline one(Options(2));
  Train(one.pipeline(), MakeTrainingPlan(data, 2));
  const OptimizerReport expected = one.Step(1);

  std::swap(data[2], data[5]);
  TinyPipeline swapped(Options(2));
  Train(swapped.pipeline(), MakeTrainingPlan(data, 2));
  // In the moments: a first step of AdamW is little more than the gradient's sign.
  EXPECT_NE(swapped.Step(1).moments_digest, expected.moments_digest);
}

TEST_P(PipelineTest, ASkippedStepChangesNothingAndForgetsTheGradients) {
  TinyPipeline tiny(Options(2));
  const OptimizerReport before = tiny.Digests();
  Train(tiny.pipeline(), MakeTrainingPlan(TinyData(1, 3), 3));
  ASSERT_TRUE(tiny.pipeline().GradientNorm().ok());
  const OptimizerReport skipped = tiny.Digests();
  EXPECT_EQ(skipped.weights_digest, before.weights_digest);
  EXPECT_EQ(skipped.moments_digest, before.moments_digest);
  const absl::StatusOr<SumsOfSquares> sums = tiny.pipeline().GradientNorm();
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(*sums, SumsOfSquares(sums->size(), 0.0));
}

TEST_P(PipelineTest, AForwardAloneGivesTheLogProbsOfTrainingAndNoGradients) {
  const std::vector<Datum> data = TinyData(5, 4);
  TinyPipeline tiny(Options(2));
  TrainingPlan forward = MakeTrainingPlan(data, 2);
  forward.schedule = ScheduleKind::kForwardOnly;
  const TrainingReport report = Train(tiny.pipeline(), std::move(forward));
  const absl::StatusOr<SumsOfSquares> none = tiny.pipeline().GradientNorm();
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, SumsOfSquares(none->size(), 0.0));

  EXPECT_TRUE(Same(Train(tiny.pipeline(), MakeTrainingPlan(data, 2)), report));
  const absl::StatusOr<SumsOfSquares> some = tiny.pipeline().GradientNorm();
  ASSERT_TRUE(some.ok());
  for (const double sum : *some) EXPECT_GT(sum, 0);
}

TEST_P(PipelineTest, ReadsEveryTensorFromTheStageThatHasIt) {
  TinyPipeline one(Options(1));
  TinyPipeline three(Options(3));
  const std::vector<float> masters = Masters(one);
  EXPECT_TRUE(SameBits(Masters(three), masters));
  // They are the model's.
  std::vector<float> embedding(kTinyVocabSize * 32);
  FillTinyTensor(ModelParams(one.config()).front(), 7, embedding.data());
  EXPECT_TRUE(SameBits(absl::MakeConstSpan(masters).first(embedding.size()), embedding));
  EXPECT_EQ(three.pipeline().ReadTensor("model.layers.9.mlp.up_proj.weight").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_P(PipelineTest, PlansInFlightComeBackInOrder) {
  for (const int64_t stages : {1, 2}) {
    TinyPipeline alone(Options(1));
    TinyPipeline tiny(Options(stages));
    std::vector<uint64_t> ids;
    for (int i = 0; i < 6; ++i) {
      const absl::StatusOr<uint64_t> id =
          tiny.pipeline().Submit(PromptPlan(i, 5 + 7 * (i % 3), 4 * i));
      ASSERT_TRUE(id.ok()) << id.status();
      ids.push_back(*id);
      EXPECT_EQ(tiny.pipeline().inference_in_flight(), i + 1);
    }
    for (int i = 0; i < 6; ++i) {
      const absl::StatusOr<FinishedInference> finished = tiny.pipeline().NextInference();
      ASSERT_TRUE(finished.ok()) << finished.status();
      EXPECT_EQ(finished->id, ids[i]);
      EXPECT_TRUE(
          Same(finished->results, RunOne(alone.pipeline(), PromptPlan(i, 5 + 7 * (i % 3), 0))));
    }
    EXPECT_EQ(tiny.pipeline().inference_in_flight(), 0);
  }
}

// Silent zeros and NaNs were what users of other systems met (field note: NaN hidden as 0.0).
TEST_P(PipelineTest, RowsThatAreNotFiniteNameTheFirstPartOfTheModel) {
  const bool tied = TinyModelConfig(GetParam()).tie_word_embeddings;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"model.embed_tokens.weight", "the embedding"},
      {"model.layers.0.input_layernorm.weight", "layer 0's attention"},
      {"model.layers.0.mlp.down_proj.weight", "layer 0's MLP"},
      {"model.layers.1.self_attn.v_proj.weight", "layer 1's attention"},
      {"model.layers.1.post_attention_layernorm.weight", "layer 1's MLP"},
      {"model.layers.2.self_attn.o_proj.weight", "layer 2's attention"},
      {"model.layers.2.mlp.up_proj.weight", "layer 2's MLP"},
      {tied ? "model.norm.weight" : "lm_head.weight", "the head"},
  };
  for (const auto& [tensor, place] : cases) {
    for (const int64_t stages : {1, 2, 3}) {
      TinyPipelineOptions options = Options(stages);
      options.huge_tensor = tensor;
      TinyPipeline tiny(options);
      // Two plans in flight: each has its own answer.
      ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(1, 20, 0)).ok());
      ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(2, 3, 8)).ok());
      for (const size_t rows : {20u, 3u}) {
        const absl::StatusOr<FinishedInference> finished = tiny.pipeline().NextInference();
        ASSERT_TRUE(finished.ok()) << finished.status();
        EXPECT_EQ(finished->non_finite.size(), rows) << tensor;
        for (const auto& [row, where] : finished->non_finite) {
          EXPECT_EQ(Name(where), place) << tensor << ", row " << row << ", " << stages << " stages";
        }
      }
    }
  }
}

// A norm makes zeros of a row whose square sum overflows: finite numbers that mean nothing.
TEST_P(PipelineTest, RowsWhoseSquareSumOverflowsAreNotFinite) {
  for (const auto& [tensor, place] : std::vector<std::pair<std::string, std::string>>{
           {"model.embed_tokens.weight", "the embedding"},
           {"model.layers.1.self_attn.o_proj.weight", "layer 1's attention"},
           {"model.layers.2.mlp.down_proj.weight", "layer 2's MLP"},
           {"model.layers.0.self_attn.k_proj.weight", "layer 0's attention"}}) {
    const bool key = tensor.find("k_proj") != std::string::npos;
    if (key && !TinyModelConfig(GetParam()).qk_norm) continue;  // nothing there squares a key
    TinyPipelineOptions options = Options(2);
    options.huge_tensor = tensor;
    options.huge_value = 1e22f;
    TinyPipeline tiny(options);
    ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(1, 20, 0)).ok());
    const absl::StatusOr<FinishedInference> finished = tiny.pipeline().NextInference();
    ASSERT_TRUE(finished.ok()) << finished.status();
    EXPECT_EQ(finished->non_finite.size(), 20u) << tensor;
    for (const auto& [row, where] : finished->non_finite) EXPECT_EQ(Name(where), place) << tensor;
  }
}

TEST_P(PipelineTest, TrainingPutsInferenceInFlightAside) {
  TinyPipeline tiny(Options(2));
  const std::vector<LogitsResult> first = RunOne(tiny.pipeline(), PromptPlan(1, 20, 0));
  const std::vector<LogitsResult> second = RunOne(tiny.pipeline(), PromptPlan(2, 30, 8));
  const TrainingReport training = Train(tiny.pipeline(), MakeTrainingPlan(TinyData(2, 4), 2));
  tiny.Digests();

  ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(1, 20, 0)).ok());
  ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(2, 30, 8)).ok());
  EXPECT_TRUE(Same(Train(tiny.pipeline(), MakeTrainingPlan(TinyData(2, 4), 2)), training));
  EXPECT_TRUE(Same(tiny.pipeline().NextInference()->results, first));
  ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(1, 20, 0)).ok());
  EXPECT_TRUE(Same(tiny.pipeline().NextInference()->results, second));
  EXPECT_TRUE(Same(tiny.pipeline().NextInference()->results, first));
}

TEST_P(PipelineTest, AFailedPlanEndsThePipelineWithItsReason) {
  for (const int64_t stages : {1, 2}) {
    TinyPipeline tiny(Options(stages));
    InferencePlan plan = PromptPlan(1, 4, 0);
    plan.weight_version = 99;
    ASSERT_TRUE(tiny.pipeline().Submit(std::move(plan)).ok());
    ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(1, 4, 0)).ok());
    const absl::Status status = tiny.pipeline().NextInference().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("stage "), std::string::npos) << status;
    EXPECT_NE(status.message().find("weight version 99"), std::string::npos) << status;

    // From then on everything says so, and nothing waits.
    EXPECT_EQ(tiny.pipeline().NextInference().status(), status);
    EXPECT_EQ(tiny.pipeline().Submit(PromptPlan(1, 4, 0)).status(), status);
    EXPECT_EQ(tiny.pipeline().Train(MakeTrainingPlan(TinyData(1, 2), 1)).status(), status);
    EXPECT_EQ(tiny.pipeline().GradientNorm().status(), status);
    EXPECT_EQ(tiny.pipeline().Optimize({}).status(), status);
    EXPECT_EQ(tiny.pipeline().ReadTensor("model.norm.weight").status(), status);
    tiny.pipeline().ReleaseWeights(0);
  }
}

TEST_P(PipelineTest, AFailedTrainingPlanHangsNobody) {
  TinyPipeline tiny(Options(2));
  TrainingPlan plan = MakeTrainingPlan(TinyData(1, 4), 1);
  plan.weight_version = 5;
  EXPECT_EQ(tiny.pipeline().Train(std::move(plan)).status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(PipelineTest, ReleasedWeightsAreGoneAndOthersStay) {
  TinyPipeline tiny(Options(2));
  const std::vector<LogitsResult> before = RunOne(tiny.pipeline(), PromptPlan(1, 20, 0));
  Train(tiny.pipeline(), MakeTrainingPlan(TinyData(2, 4), 2));
  tiny.Step(1);
  // Version 0 stands beside version 1 until it is released, plans in flight included.
  EXPECT_TRUE(Same(RunOne(tiny.pipeline(), PromptPlan(1, 20, 0)), before));
  ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(1, 20, 0)).ok());
  tiny.pipeline().ReleaseWeights(0);
  EXPECT_TRUE(Same(tiny.pipeline().NextInference()->results, before));

  InferencePlan current = PromptPlan(1, 20, 0);
  current.weight_version = 1;
  EXPECT_FALSE(Same(RunOne(tiny.pipeline(), std::move(current)), before));
  ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(1, 20, 0)).ok());
  EXPECT_EQ(tiny.pipeline().NextInference().status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(PipelineTest, LeavingWithPlansInFlightHangsNobody) {
  for (const int64_t stages : {1, 3}) {
    TinyPipeline tiny(Options(stages));
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(tiny.pipeline().Submit(PromptPlan(i, 30, 2 * i)).ok());
    tiny.Destroy();
  }
}

}  // namespace
}  // namespace lockstep
