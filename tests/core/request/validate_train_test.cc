// Goal: bad training requests are refused by field, index and value. Method: tables of one change
// each to a good ppo TrainStep, with the whole message expected; ForwardBackward and OptimStep are
// shown to run the same checks.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/request/validate.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using R = TrainStepRequest;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr RequestLimits kLimits{
    .vocab_size = 100, .context_length_max = 4, .num_samples_max = 8, .data_max = 3};

R Good() {
  Datum datum;
  datum.model_input = {1, 2, 3};
  datum.target_tokens = {2, 3, 99};
  datum.mask = {0, 1, 1};
  datum.weights = {1, -2, 0.5f};
  datum.logprobs = {kNan, -1, -2};
  datum.advantages = {0, 1, -1};
  R request;
  request.call = {.run_id = "run", .seq_id = 1};
  request.data = {datum, datum};
  request.loss.kind = LossKind::kPpo;
  request.adamw.learning_rate = 1e-3f;
  return request;
}

struct Case {
  std::function<void(R&)> change;
  std::string message;  // empty: accepted
};

void Check(const std::vector<Case>& cases) {
  ASSERT_TRUE(Validate(Good(), kLimits).ok()) << Validate(Good(), kLimits);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ": " + cases[i].message);
    R request = Good();
    cases[i].change(request);
    const absl::Status status = Validate(request, kLimits);
    EXPECT_EQ(status.message(), cases[i].message);
    EXPECT_EQ(status.code(), cases[i].message.empty() ? absl::StatusCode::kOk
                                                      : absl::StatusCode::kInvalidArgument);
  }
}

TEST(ValidateTrainTest, Call) {
  Check({
      {[](R& r) { r.call.run_id = ""; }, "call.run_id: must not be empty"},
      {[](R& r) { r.call.run_id.assign(128, 'r'); }, ""},
      {[](R& r) { r.call.run_id.assign(129, 'r'); },
       "call.run_id: must be at most 128 bytes, is 129"},
      {[](R& r) { r.call.seq_id = 0; }, "call.seq_id: must be >= 1, is 0"},
      {[](R& r) { r.micro_batch_size = -1; }, "micro_batch_size: must be >= 0, is -1"},
      {[](R& r) { r.micro_batch_size = 1000; }, ""},
  });
}

TEST(ValidateTrainTest, LossAndAdamW) {
  Check({
      {[](R& r) { r.loss.clip_low_threshold = 1.1f; },
       "loss.clip_low_threshold: must be in [0, 1], is 1.1"},
      {[](R& r) { r.loss.clip_low_threshold = -0.5f; },
       "loss.clip_low_threshold: must be in [0, 1], is -0.5"},
      {[](R& r) { r.loss.clip_high_threshold = 0.9f; },
       "loss.clip_high_threshold: must be >= 1, is 0.9"},
      {[](R& r) { r.loss.clip_high_threshold = kNan; },
       "loss.clip_high_threshold: must be >= 1, is nan"},
      {[](R& r) { r.adamw.learning_rate = -1; },
       "adamw.learning_rate: must be >= 0 and finite, is -1"},
      {[](R& r) { r.adamw.learning_rate = kInf; },
       "adamw.learning_rate: must be >= 0 and finite, is inf"},
      {[](R& r) { r.adamw.learning_rate = 0; }, ""},
      {[](R& r) { r.adamw.beta1 = 1; }, "adamw.beta1: must be in [0, 1), is 1"},
      {[](R& r) { r.adamw.beta2 = -0.5f; }, "adamw.beta2: must be in [0, 1), is -0.5"},
      {[](R& r) { r.adamw.beta2 = kNan; }, "adamw.beta2: must be in [0, 1), is nan"},
      {[](R& r) { r.adamw.epsilon = 0; }, "adamw.epsilon: must be > 0 and finite, is 0"},
      {[](R& r) { r.adamw.weight_decay = -0.5f; },
       "adamw.weight_decay: must be >= 0 and finite, is -0.5"},
      {[](R& r) { r.adamw.grad_clip_norm = kNan; },
       "adamw.grad_clip_norm: must be >= 0 and finite, is nan"},
  });
}

TEST(ValidateTrainTest, DataCountAndLengths) {
  Check({
      {[](R& r) { r.data.clear(); }, "data: must have at least 1 datum, has 0"},
      {[](R& r) { r.data.resize(4); }, "data: must have at most 3 data, has 4"},
      {[](R& r) { r.data[1].model_input.clear(); },
       "data[1].model_input: must have at least 1 token, has 0"},
      {[](R& r) { r.data[1].model_input.assign(5, 1); },
       "data[1].model_input: 5 tokens exceed the model's context of 4"},
      {[](R& r) { r.data[1].target_tokens.pop_back(); },
       "data[1].target_tokens: has 2 elements where model_input has 3"},
      {[](R& r) { r.data[1].target_tokens.clear(); },
       "data[1].target_tokens: has 0 elements where model_input has 3"},
      {[](R& r) { r.data[0].mask.push_back(1); },
       "data[0].mask: has 4 elements where model_input has 3"},
      {[](R& r) { r.data[0].weights.pop_back(); },
       "data[0].weights: has 2 elements where model_input has 3"},
      {[](R& r) { r.data[0].weights.clear(); }, ""},
      {[](R& r) { r.data[1].logprobs.pop_back(); },
       "data[1].logprobs: has 2 elements where model_input has 3"},
      {[](R& r) { r.data[1].logprobs.clear(); }, "data[1].logprobs: required by ppo, is empty"},
      {[](R& r) { r.data[1].advantages.clear(); }, "data[1].advantages: required by ppo, is empty"},
      {[](R& r) { r.data[1].advantages.push_back(0); },
       "data[1].advantages: has 4 elements where model_input has 3"},
      {[](R& r) {
         r.loss.kind = LossKind::kCrossEntropy;
         r.data[1].logprobs.clear();
         r.data[1].advantages.clear();
       },
       ""},
  });
}

TEST(ValidateTrainTest, DatumValues) {
  Check({
      {[](R& r) { r.data[1].model_input[2] = 100; },
       "data[1].model_input[2]: 100 is outside the vocabulary [0, 100)"},
      {[](R& r) { r.data[1].target_tokens[1] = -1; },
       "data[1].target_tokens[1]: -1 is outside the vocabulary [0, 100)"},
      {[](R& r) { r.data[1].target_tokens[0] = -100; }, ""},  // masked
      {[](R& r) { r.data[0].mask[1] = 0.5f; }, "data[0].mask[1]: must be 0 or 1, is 0.5"},
      {[](R& r) { r.data[0].mask[1] = kNan; }, "data[0].mask[1]: must be 0 or 1, is nan"},
      {[](R& r) { r.data[0].weights[0] = kInf; }, "data[0].weights[0]: must be finite, is inf"},
      {[](R& r) { r.data[1].logprobs[1] = kNan; },
       "data[1].logprobs[1]: must be finite where mask is 1, is nan"},
      {[](R& r) { r.data[1].logprobs[2] = -kInf; },
       "data[1].logprobs[2]: must be finite where mask is 1, is -inf"},
      {[](R& r) { r.data[1].advantages[2] = kNan; },
       "data[1].advantages[2]: must be finite, is nan"},
  });
}

TEST(ValidateTrainTest, OnlyReplayableSampling) {
  const std::string truncated =
      ": data sampled with truncation cannot be replayed yet; must be off, is ";
  Check({
      {[](R& r) { r.data[1].sampling.temperature = 0.7f; }, ""},
      {[](R& r) { r.data[1].sampling.temperature = 0; },
       "data[1].sampling_params.temperature: must be > 0, is 0: greedy data have no distribution "
       "to train"},
      {[](R& r) { r.data[1].sampling.temperature = -1; },
       "data[1].sampling_params.temperature: must be >= 0 and finite, is -1"},
      {[](R& r) { r.data[1].sampling.top_p = 2; },
       "data[1].sampling_params.top_p: must be in (0, 1], is 2"},
      {[&](R& r) { r.data[1].sampling.top_p = 0.5f; },
       "data[1].sampling_params.top_p" + truncated + "0.5"},
      {[&](R& r) { r.data[0].sampling.top_k = 5; },
       "data[0].sampling_params.top_k" + truncated + "5"},
      {[&](R& r) { r.data[0].sampling.min_p = 0.25f; },
       "data[0].sampling_params.min_p" + truncated + "0.25"},
  });
}

TEST(ValidateTrainTest, TokenMeanOverNothing) {
  const auto mask_all = [](R& r) {
    for (Datum& datum : r.data) datum.mask = {0, 0, 0};
  };
  Check({
      {mask_all, ""},
      {[&](R& r) {
         mask_all(r);
         r.agg_mode = LossAggMode::kTokenMean;
       },
       "data: token-mean needs a position with mask 1, all are masked"},
  });
}

TEST(ValidateTrainTest, ForwardBackwardAndOptimStepRunTheSameChecks) {
  const R good = Good();
  ForwardBackwardRequest forward_backward{
      .call = good.call, .data = good.data, .loss = good.loss, .agg_mode = good.agg_mode};
  EXPECT_TRUE(Validate(forward_backward, kLimits).ok());
  forward_backward.data[0].advantages[0] = kNan;
  EXPECT_EQ(Validate(forward_backward, kLimits).message(),
            "data[0].advantages[0]: must be finite, is nan");
  forward_backward.loss.clip_low_threshold = 2;
  EXPECT_EQ(Validate(forward_backward, kLimits).message(),
            "loss.clip_low_threshold: must be in [0, 1], is 2");
  forward_backward.call.seq_id = 0;
  EXPECT_EQ(Validate(forward_backward, kLimits).message(), "call.seq_id: must be >= 1, is 0");

  OptimStepRequest optim_step{.call = good.call, .adamw = good.adamw};
  EXPECT_TRUE(Validate(optim_step, kLimits).ok());
  optim_step.adamw.beta1 = 2;
  EXPECT_EQ(Validate(optim_step, kLimits).message(), "adamw.beta1: must be in [0, 1), is 2");
  optim_step.call.run_id = "";
  EXPECT_EQ(Validate(optim_step, kLimits).message(), "call.run_id: must not be empty");
}

}  // namespace
}  // namespace lockstep
