// Goal: a step is a function of its data and options alone, a call is applied once, and what cannot
// be applied changes nothing. Method: the trainer over a real pipeline on the tiny model; equality
// is that of the digests of weights and moments, after several steps, because the first step of
// AdamW is little more than the gradient's sign.
#include "core/train/trainer.h"

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_pipeline.h"

namespace lockstep {
namespace {

AdamWParams MakeAdamW() {
  AdamWParams adamw;
  adamw.learning_rate = 0.01f;
  adamw.weight_decay = 0.1f;
  adamw.grad_clip_norm = 1;
  return adamw;
}

// A trainer and all that it works on.
struct TrainerRig {
  explicit TrainerRig(const TinyPipelineOptions& options = {},
                      const TrainerOptions& trainer_options = {})
      : tiny(options),
        versions(&tiny.pipeline(), Root()),
        trainer(trainer_options, tiny.config(), tiny.Digests(), &tiny.pipeline(), &versions,
                &clock) {}

  static WeightsState Root() {
    WeightsState root;
    root.numerics_id = "test";
    return root;
  }

  CallId Next() { return {"run", next_seq_id++}; }

  absl::StatusOr<TrainStepResult> Step(const std::vector<Datum>& data,
                                       LossAggMode mode = LossAggMode::kTokenSum,
                                       int32_t micro_batch_size = 0) {
    return trainer.TrainStep({Next(), data, loss, mode, adamw, micro_batch_size});
  }
  absl::StatusOr<ForwardBackwardResult> Accumulate(const std::vector<Datum>& data,
                                                   LossAggMode mode = LossAggMode::kTokenSum) {
    return trainer.ForwardBackward({Next(), data, loss, mode, 0});
  }
  absl::StatusOr<OptimStepResult> Finish() { return trainer.OptimStep({Next(), adamw}); }

  // Everything that a step changes.
  std::string State() const {
    return absl::StrCat(trainer.weights_digest(), " ", trainer.moments_digest(), " ",
                        ToHex(versions.current().state_id), " ", versions.current().weight_version);
  }

  TinyPipeline tiny;
  FakeClock clock;
  WeightVersions versions;
  Trainer trainer;
  LossConfig loss;
  AdamWParams adamw = MakeAdamW();
  uint64_t next_seq_id = 1;
};

constexpr int kSteps = 3;

std::vector<Datum> DataOfStep(int step) { return TinyData(10 + step, 5); }

// The state after kSteps whole steps on one stage.
std::string StateAfterSteps(LossAggMode mode = LossAggMode::kTokenSum) {
  TrainerRig rig;
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(rig.Step(DataOfStep(step), mode).ok());
  }
  return rig.State();
}

TEST(TrainerTest, AStepMovesWeightsMomentsAndNames) {
  TrainerRig rig;
  std::set<std::string> weights = {rig.trainer.weights_digest()};
  std::set<std::string> moments = {rig.trainer.moments_digest()};
  std::set<StateId> states = {rig.versions.current().state_id};
  for (int step = 0; step < kSteps; ++step) {
    const auto result = rig.Step(DataOfStep(step));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->optim.skipped);
    EXPECT_GT(result->optim.grad_norm, 0);
    EXPECT_EQ(result->weights.weight_version, static_cast<uint64_t>(step + 1));
    EXPECT_EQ(result->weights.state_id, rig.versions.current().state_id);
    EXPECT_TRUE(weights.insert(rig.trainer.weights_digest()).second);
    EXPECT_TRUE(moments.insert(rig.trainer.moments_digest()).second);
    EXPECT_TRUE(states.insert(result->weights.state_id).second);
  }
  EXPECT_EQ(rig.trainer.weights_digest().size(), 32u);
}

TEST(TrainerTest, StagesThreadsAndMicroBatchesMoveNoBit) {
  const std::string expected = StateAfterSteps();
  for (const auto& [stages, threads, size] :
       {std::tuple{2, 1, 1}, {1, 2, 2}, {3, 3, 4}, {2, 2, 5}}) {
    TrainerRig rig({.stages = stages, .threads = threads});
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(rig.Step(DataOfStep(step), LossAggMode::kTokenSum, size).ok());
    }
    EXPECT_EQ(rig.State(), expected) << stages << " stages, micro-batches of " << size;
  }
}

TEST(TrainerTest, CallBoundariesMoveNoBit) {
  for (const LossAggMode mode : {LossAggMode::kTokenSum, LossAggMode::kTokenMean}) {
    const std::string expected = StateAfterSteps(mode);
    TrainerRig one_call;
    TrainerRig many_calls({.stages = 2});
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<Datum> data = DataOfStep(step);
      ASSERT_TRUE(one_call.Accumulate(data, mode).ok());
      ASSERT_TRUE(one_call.Finish().ok());

      ASSERT_TRUE(many_calls.Accumulate({data[0]}, mode).ok());
      ASSERT_TRUE(many_calls.Accumulate({data[1], data[2]}, mode).ok());
      ASSERT_TRUE(many_calls.Accumulate({data[3], data[4]}, mode).ok());
      ASSERT_TRUE(many_calls.Finish().ok());
    }
    EXPECT_EQ(one_call.State(), expected);
    EXPECT_EQ(many_calls.State(), expected);
  }
  EXPECT_NE(StateAfterSteps(LossAggMode::kTokenSum), StateAfterSteps(LossAggMode::kTokenMean));
}

TEST(TrainerTest, TheOrderOfDataIsPartOfTheStep) {
  TrainerRig rig;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Datum> data = DataOfStep(step);
    std::swap(data[1], data[3]);
    ASSERT_TRUE(rig.Step(data).ok());
  }
  EXPECT_NE(rig.State(), StateAfterSteps());
}

TEST(TrainerTest, ARetriedCallChangesNothingAndGetsTheSameAnswer) {
  TrainerRig rig;
  const TrainStepRequest step{{"run", 1}, DataOfStep(0), {}, LossAggMode::kTokenSum, rig.adamw, 0};
  const auto first = rig.trainer.TrainStep(step);
  ASSERT_TRUE(first.ok());
  const std::string state = rig.State();
  TrainStepRequest again = step;
  again.micro_batch_size = 2;  // not part of the payload: it cannot move a bit
  const auto second = rig.trainer.TrainStep(again);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(rig.State(), state);
  EXPECT_EQ(second->metrics.loss, first->metrics.loss);
  EXPECT_EQ(second->optim.grad_norm, first->optim.grad_norm);
  EXPECT_EQ(second->weights.state_id, first->weights.state_id);
  ASSERT_EQ(second->logprobs.size(), first->logprobs.size());
  for (size_t d = 0; d < first->logprobs.size(); ++d) {
    EXPECT_TRUE(SameBits(second->logprobs[d], first->logprobs[d]));
  }

  // Retried in the middle of a step, a gradient is added once.
  const ForwardBackwardRequest half{{"run", 2}, DataOfStep(1), {}, LossAggMode::kTokenSum, 0};
  ASSERT_TRUE(rig.trainer.ForwardBackward(half).ok());
  ASSERT_TRUE(rig.trainer.ForwardBackward(half).ok());
  const OptimStepRequest finish{{"run", 3}, rig.adamw};
  ASSERT_TRUE(rig.trainer.OptimStep(finish).ok());
  ASSERT_TRUE(rig.trainer.OptimStep(finish).ok());
  ASSERT_TRUE(rig.trainer.ForwardBackward(half).ok());
  TrainerRig once;
  ASSERT_TRUE(once.Step(DataOfStep(0)).ok());
  ASSERT_TRUE(once.Step(DataOfStep(1)).ok());
  EXPECT_EQ(rig.State(), once.State());
}

TEST(TrainerTest, AnotherPayloadOrAGapIsRefusedAndChangesNothing) {
  TrainerRig rig;
  ASSERT_TRUE(rig.Step(DataOfStep(0)).ok());
  const std::string state = rig.State();
  const auto call = [&](uint64_t seq_id, int step, const AdamWParams& adamw) {
    return rig.trainer
        .TrainStep({{"run", seq_id}, DataOfStep(step), {}, LossAggMode::kTokenSum, adamw, 0})
        .status()
        .code();
  };
  EXPECT_EQ(call(1, 1, rig.adamw), absl::StatusCode::kAlreadyExists);
  AdamWParams other = rig.adamw;
  other.learning_rate = 1;
  EXPECT_EQ(call(1, 0, other), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(rig.trainer.OptimStep({{"run", 1}, rig.adamw}).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(call(3, 1, rig.adamw), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.State(), state);
  EXPECT_EQ(call(2, 1, rig.adamw), absl::StatusCode::kOk);
}

TEST(TrainerTest, OptimStepNeedsGradients) {
  TrainerRig rig;
  const absl::Status status = rig.Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("ForwardBackward"), std::string::npos) << status;
  // It consumed no id.
  rig.next_seq_id = 1;
  ASSERT_TRUE(rig.Accumulate(DataOfStep(0)).ok());
  ASSERT_TRUE(rig.Finish().ok());
  EXPECT_EQ(rig.Finish().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TrainerTest, TrainStepRefusesAnUnfinishedStep) {
  TrainerRig rig;
  ASSERT_TRUE(rig.Accumulate(DataOfStep(0)).ok());
  const std::string state = rig.State();
  const absl::Status status = rig.Step(DataOfStep(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("run"), std::string::npos) << status;
  EXPECT_EQ(rig.State(), state);
  --rig.next_seq_id;
  ASSERT_TRUE(rig.Finish().ok());
  TrainerRig expected;
  ASSERT_TRUE(expected.Step(DataOfStep(0)).ok());
  EXPECT_EQ(rig.State(), expected.State());
}

TEST(TrainerTest, AnotherRunsUnfinishedStepIsNotTouched) {
  TrainerRig rig;
  ASSERT_TRUE(rig.Accumulate(DataOfStep(0)).ok());
  const CallId other{"other", 1};
  const absl::Status added =
      rig.trainer.ForwardBackward({other, DataOfStep(1), {}, LossAggMode::kTokenSum, 0}).status();
  EXPECT_EQ(added.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(added.message().find("run has gradients"), std::string::npos) << added;
  EXPECT_EQ(rig.trainer.OptimStep({other, rig.adamw}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(rig.Finish().ok());
  TrainerRig expected;
  ASSERT_TRUE(expected.Step(DataOfStep(0)).ok());
  EXPECT_EQ(rig.State(), expected.State());
  // Now it is the other's turn.
  EXPECT_TRUE(
      rig.trainer.ForwardBackward({other, DataOfStep(1), {}, LossAggMode::kTokenSum, 0}).ok());
}

TEST(TrainerTest, MixedAggregationModesAreRefused) {
  TrainerRig rig;
  ASSERT_TRUE(rig.Accumulate({DataOfStep(0)[1]}, LossAggMode::kTokenMean).ok());
  const absl::Status status = rig.Accumulate({DataOfStep(0)[2]}, LossAggMode::kTokenSum).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"loss_agg_mode", "token-sum", "token-mean"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
  }
  --rig.next_seq_id;
  ASSERT_TRUE(rig.Accumulate({DataOfStep(0)[2]}, LossAggMode::kTokenMean).ok());
  ASSERT_TRUE(rig.Finish().ok());
  TrainerRig expected;
  ASSERT_TRUE(expected.Step({DataOfStep(0)[1], DataOfStep(0)[2]}, LossAggMode::kTokenMean).ok());
  EXPECT_EQ(rig.State(), expected.State());
}

TEST(TrainerTest, TokenMeanDividesTheStepByItsTokens) {
  const std::vector<Datum> data = DataOfStep(0);
  TrainerRig sum;
  TrainerRig mean;
  sum.adamw.grad_clip_norm = mean.adamw.grad_clip_norm = 0;
  const auto of_sum = sum.Step(data, LossAggMode::kTokenSum);
  const auto of_mean = mean.Step(data, LossAggMode::kTokenMean);
  ASSERT_TRUE(of_sum.ok() && of_mean.ok());
  const double tokens = static_cast<double>(of_sum->metrics.token_count);
  EXPECT_GT(tokens, 20);
  EXPECT_EQ(of_sum->optim.loss_denominator, 1);
  EXPECT_EQ(of_mean->optim.loss_denominator, tokens);
  EXPECT_DOUBLE_EQ(of_mean->optim.grad_norm, of_sum->optim.grad_norm / tokens);
  EXPECT_DOUBLE_EQ(of_mean->metrics.loss, of_sum->metrics.loss / tokens);
}

TEST(TrainerTest, ClippingScalesTheWholeGradientToTheNorm) {
  // Moments see the scaled gradient: after one step with beta2 of 0, moment2 is its square.
  const auto step = [](float clip, float scale) {
    TrainerRig rig;
    rig.adamw.grad_clip_norm = clip;
    std::vector<Datum> data = DataOfStep(0);
    for (Datum& datum : data) {
      for (float& weight : datum.weights) weight *= scale;
    }
    const auto result = rig.Step(data);
    EXPECT_TRUE(result.ok());
    return std::pair{result->optim.grad_norm, rig.trainer.moments_digest()};
  };
  const auto [norm, free] = step(0, 1);
  EXPECT_EQ(step(static_cast<float>(2 * norm), 1).second, free);  // below the bound: untouched
  const float bound = static_cast<float>(norm / 2);
  const auto [reported, clipped] = step(bound, 1);
  EXPECT_EQ(reported, norm);  // the norm before clipping
  EXPECT_NE(clipped, free);
  // A gradient of exactly twice the size is clipped to the same.
  EXPECT_EQ(step(bound, 2), std::pair(2 * norm, clipped));
}

TEST(TrainerTest, AGradientThatIsNotFiniteSkipsTheStepAndNamesATensor) {
  TrainerRig rig;
  ASSERT_TRUE(rig.Step(DataOfStep(0)).ok());
  const std::string state = rig.State();
  std::vector<Datum> data = DataOfStep(1);
  data[2].weights.assign(data[2].weights.size(), 3e38f);
  const auto skipped = rig.Step(data);
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  EXPECT_TRUE(skipped->optim.skipped);
  EXPECT_FALSE(skipped->optim.non_finite_tensor.empty());
  std::set<std::string> names;
  for (const ParamSpec& spec : ModelParams(rig.tiny.config())) names.insert(spec.name);
  EXPECT_EQ(names.count(skipped->optim.non_finite_tensor), 1u) << skipped->optim.non_finite_tensor;
  EXPECT_EQ(rig.State(), state);
  EXPECT_EQ(skipped->weights.weight_version, 1u);

  // As if it had never been: t has not moved, no gradient is left.
  ASSERT_TRUE(rig.Step(DataOfStep(1)).ok());
  ASSERT_TRUE(rig.Step(DataOfStep(2)).ok());
  EXPECT_EQ(rig.State(), StateAfterSteps());
}

TEST(TrainerTest, LearningLowersTheLoss) {
  TrainerRig rig({.stages = 2});
  const std::vector<Datum> data = TinyData(1, 6);
  const auto first = rig.Step(data, LossAggMode::kTokenMean);
  ASSERT_TRUE(first.ok());
  double loss = 0;
  for (int step = 0; step < 15; ++step) {
    const auto result = rig.Step(data, LossAggMode::kTokenMean);
    ASSERT_TRUE(result.ok());
    loss = result->metrics.loss;
  }
  EXPECT_LT(loss, first->metrics.loss / 2);
}

TEST(TrainerTest, LearningRateZeroLeavesTheWeightsAndMovesTheMoments) {
  TrainerRig rig;
  rig.adamw.learning_rate = 0;
  const std::string weights = rig.trainer.weights_digest();
  const std::string moments = rig.trainer.moments_digest();
  ASSERT_TRUE(rig.Step(DataOfStep(0)).ok());
  EXPECT_EQ(rig.trainer.weights_digest(), weights);
  EXPECT_NE(rig.trainer.moments_digest(), moments);
}

TEST(TrainerTest, OnPolicyDataMatchInEveryBitAndOffPolicyDoNot) {
  TrainerRig rig;
  rig.loss.kind = LossKind::kPpo;
  std::vector<Datum> data = DataOfStep(0);
  for (Datum& datum : data) datum.sampling.temperature = 0.7f;
  const auto logprobs = rig.trainer.TrainingForward(data, 2, rig.versions.current().weight_version);
  ASSERT_TRUE(logprobs.ok());
  for (size_t d = 0; d < data.size(); ++d) {
    data[d].logprobs = (*logprobs)[d];
    data[d].advantages.assign(data[d].model_input.size(), 0.5f);
    data[d].sampled_under = rig.versions.current();
  }
  const auto on_policy = rig.Step(data);
  ASSERT_TRUE(on_policy.ok());
  EXPECT_EQ(on_policy->metrics.compared_tokens, on_policy->metrics.token_count);
  EXPECT_EQ(on_policy->metrics.mismatched_tokens, 0);
  EXPECT_EQ(on_policy->metrics.pg_clipfrac, 0);
  EXPECT_EQ(on_policy->metrics.ppo_kl, 0);
  // Under the new weights nothing is compared; and were it claimed, it would be found out.
  const auto off_policy = rig.Step(data);
  ASSERT_TRUE(off_policy.ok());
  EXPECT_EQ(off_policy->metrics.compared_tokens, 0);
  EXPECT_GT(off_policy->metrics.rollout_probs_diff_max, 0);
  for (Datum& datum : data) datum.sampled_under = rig.versions.current();
  const auto stale = rig.Step(data);
  ASSERT_TRUE(stale.ok());
  EXPECT_GT(stale->metrics.mismatched_tokens, 0);
}

TEST(TrainerTest, TrainingForwardRunsUnderAnyVersionThatIsHeldAndAddsNothing) {
  TrainerRig rig;
  const std::vector<Datum> data = DataOfStep(0);
  const WeightsState pinned = rig.versions.Pin();
  const auto before = rig.trainer.TrainingForward(data, 5, 0);
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(rig.Step(data).ok());
  const auto old = rig.trainer.TrainingForward(data, 1, pinned.weight_version);
  const auto current = rig.trainer.TrainingForward(data, 1, 1);
  ASSERT_TRUE(old.ok() && current.ok());
  for (size_t d = 0; d < data.size(); ++d) {
    EXPECT_TRUE(SameBits((*old)[d], (*before)[d]));
    EXPECT_FALSE(SameBits((*current)[d], (*before)[d]));
  }
  TrainerRig plain;
  ASSERT_TRUE(plain.Step(data).ok());
  EXPECT_EQ(rig.State(), plain.State());
  EXPECT_EQ(rig.Finish().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TrainerTest, LogProbsComePerDatumWithNaNWhereMasked) {
  TrainerRig rig;
  const std::vector<Datum> data = DataOfStep(0);
  const auto result = rig.Accumulate(data);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->logprobs.size(), data.size());
  for (size_t d = 0; d < data.size(); ++d) {
    ASSERT_EQ(result->logprobs[d].size(), data[d].model_input.size());
    for (size_t i = 0; i < data[d].mask.size(); ++i) {
      EXPECT_EQ(std::isnan(result->logprobs[d][i]), data[d].mask[i] == 0);
    }
  }
}

TEST(TrainerTest, MeasuresByTheClockItIsGiven) {
  TrainerRig rig({.stages = 2}, {.micro_batch_size = 1});
  const auto result = rig.Step(DataOfStep(0));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->metrics.tokens_per_second, 0);  // no time has passed
  EXPECT_DOUBLE_EQ(result->metrics.bubble_fraction, 1.0 / 6);
}

}  // namespace
}  // namespace lockstep
