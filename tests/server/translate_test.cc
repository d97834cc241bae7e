// Goal: no field is lost, swapped or defaulted wrongly between wire and structs. Method: messages
// with a different value in every field, and empty ones for the documented defaults; a walk over
// the answer's fields by reflection shows that none was forgotten.
#include "server/translate.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace lockstep::translate {
namespace {

WeightsState State(uint8_t first) {
  WeightsState state;
  for (size_t i = 0; i < state.state_id.size(); ++i) {
    state.state_id[i] = static_cast<uint8_t>(first + i);
  }
  state.weight_version = 9;
  state.numerics_id = "fp32-v1-l1";
  return state;
}

void SetState(v1::WeightsState& out) { ToProto(State(200), out); }

// Every field of the message, and of those inside it, holds something.
void ExpectAllFieldsSet(const google::protobuf::Message& message) {
  const google::protobuf::Descriptor* descriptor = message.GetDescriptor();
  const google::protobuf::Reflection* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor->field(i);
    SCOPED_TRACE(field->full_name());
    if (field->is_repeated()) {
      EXPECT_GT(reflection->FieldSize(message, field), 0);
    } else {
      EXPECT_TRUE(reflection->HasField(message, field));
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        ExpectAllFieldsSet(reflection->GetMessage(message, field));
      }
    }
  }
}

TEST(TranslateTest, WeightsStateThereAndBack) {
  v1::WeightsState message;
  ToProto(State(250), message);  // bytes beyond 127 among them
  ExpectAllFieldsSet(message);
  const auto back = FromProto(message, "x");
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->SameBits(State(250)));
  EXPECT_EQ(back->weight_version, 9u);
  message.set_state_id("short");
  EXPECT_EQ(FromProto(message, "data[2].sampled_under").status().message(),
            "data[2].sampled_under.state_id: must be 32 bytes, is 5");
}

TEST(TranslateTest, GenerateRequest) {
  v1::GenerateRequest message;
  auto empty = FromProto(message);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->num_samples, 1);
  EXPECT_EQ(empty->max_tokens, 16);
  EXPECT_FALSE(empty->seed.has_value());
  EXPECT_EQ(empty->sampling, SamplingParams{});

  message.set_request_id("id");
  for (int token : {5, 6}) message.add_prompt_token_ids(token);
  message.set_num_samples(0);  // set to a bad value is not "unset"
  message.mutable_sampling_params()->set_temperature(0);
  message.mutable_sampling_params()->set_top_p(0);
  message.mutable_sampling_params()->set_top_k(40);
  message.mutable_sampling_params()->set_min_p(0.25f);
  message.set_seed(0);
  message.set_max_tokens(0);
  message.add_stop_token_ids(7);
  message.set_ignore_eos(true);
  const auto request = FromProto(message);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->request_id, "id");
  EXPECT_EQ(request->prompt, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(request->num_samples, 0);
  EXPECT_EQ(request->sampling,
            (SamplingParams{.temperature = 0, .top_p = 0, .top_k = 40, .min_p = 0.25f}));
  EXPECT_EQ(request->seed, uint64_t{0});
  EXPECT_EQ(request->max_tokens, 0);
  EXPECT_EQ(request->stop_token_ids, (std::vector<int32_t>{7}));
  EXPECT_TRUE(request->ignore_eos);
}

TEST(TranslateTest, SampleDeltasAppend) {
  v1::SampleDelta message;
  AppendToProto(
      {.sample_index = 3, .tokens = {1, 2}, .logprobs = {-1, -2}, .raw_logprobs = {-3, -4}},
      message);
  EXPECT_EQ(message.finish_reason(), v1::FINISH_REASON_UNSPECIFIED);
  AppendToProto({.sample_index = 3,
                 .tokens = {9},
                 .logprobs = {-5},
                 .raw_logprobs = {-6},
                 .finish_reason = FinishReason::kStop,
                 .stop_token = 9},
                message);
  ExpectAllFieldsSet(message);
  EXPECT_EQ(message.sample_index(), 3);
  EXPECT_EQ(std::vector<int>(message.token_ids().begin(), message.token_ids().end()),
            (std::vector<int>{1, 2, 9}));
  EXPECT_EQ(message.logprobs(2), -5);
  EXPECT_EQ(message.raw_logprobs(2), -6);
  EXPECT_EQ(message.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(message.stop_token_id(), 9);
  for (const auto& [reason, expected] :
       {std::pair{FinishReason::kLength, v1::FINISH_REASON_LENGTH},
        std::pair{FinishReason::kAborted, v1::FINISH_REASON_ABORTED}}) {
    v1::SampleDelta other;
    AppendToProto({.tokens = {}, .logprobs = {}, .raw_logprobs = {}, .finish_reason = reason},
                  other);
    EXPECT_EQ(other.finish_reason(), expected);
    EXPECT_EQ(other.stop_token_id(), 0);
  }
}

TEST(TranslateTest, Score) {
  v1::ScoreRequest message;
  for (int token : {1, 2}) message.add_sequences()->add_token_ids(token);
  message.mutable_sequences(1)->mutable_sampling_params()->set_temperature(0.5f);
  const auto request = FromProto(message);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sequences[0].tokens, (std::vector<int32_t>{1}));
  EXPECT_EQ(request->sequences[0].temperature, 1);
  EXPECT_EQ(request->sequences[1].temperature, 0.5f);

  const std::string refused = ": scores under truncation are not available; must be off, is ";
  auto& sampling = *message.mutable_sequences(1)->mutable_sampling_params();
  sampling.set_min_p(0.5f);
  EXPECT_EQ(FromProto(message).status().message(),
            "sequences[1].sampling_params.min_p" + refused + "0.5");
  sampling.set_top_k(4);
  EXPECT_EQ(FromProto(message).status().message(),
            "sequences[1].sampling_params.top_k" + refused + "4");
  sampling.set_top_p(0.25f);
  EXPECT_EQ(FromProto(message).status().message(),
            "sequences[1].sampling_params.top_p" + refused + "0.25");
  EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kInvalidArgument);

  v1::ScoreResponse response;
  ToProto(ScoreResult{.scores = {{.logprobs = {std::numeric_limits<float>::quiet_NaN(), -1},
                                  .raw_logprobs = {-2},
                                  .entropies = {3}}},
                      .weights = State(1)},
          response);
  ExpectAllFieldsSet(response);
  ExpectAllFieldsSet(response.scores(0));
  EXPECT_TRUE(std::isnan(response.scores(0).logprobs(0)));
  EXPECT_EQ(response.scores(0).logprobs(1), -1);
  EXPECT_EQ(response.scores(0).raw_logprobs(0), -2);
  EXPECT_EQ(response.scores(0).entropies(0), 3);
}

v1::TrainStepRequest FullTrainStep() {
  v1::TrainStepRequest message;
  message.mutable_call()->set_run_id("run");
  message.mutable_call()->set_seq_id(4);
  v1::Datum& datum = *message.add_data();
  datum.add_model_input(1);
  datum.add_target_tokens(2);
  datum.add_mask(1);
  datum.add_weights(0.5f);
  datum.add_logprobs(-1.5f);
  datum.add_advantages(2.5f);
  datum.mutable_sampling_params()->set_temperature(0.7f);
  SetState(*datum.mutable_sampled_under());
  message.mutable_loss()->set_kind(v1::LOSS_KIND_PPO);
  message.mutable_loss()->set_clip_low_threshold(0.7f);
  message.mutable_loss()->set_clip_high_threshold(1.3f);
  message.set_loss_agg_mode(v1::LOSS_AGG_MODE_TOKEN_MEAN);
  v1::AdamWParams& adamw = *message.mutable_adamw();
  adamw.set_learning_rate(1);
  adamw.set_beta1(2);
  adamw.set_beta2(3);
  adamw.set_epsilon(4);
  adamw.set_weight_decay(5);
  adamw.set_grad_clip_norm(6);
  message.set_micro_batch_size(3);
  return message;
}

template <typename Request>
void ExpectFullGradientRequest(const Request& request) {
  EXPECT_EQ(request.call.run_id, "run");
  EXPECT_EQ(request.call.seq_id, 4u);
  ASSERT_EQ(request.data.size(), 1u);
  const Datum& datum = request.data[0];
  EXPECT_EQ(datum.model_input, (std::vector<int32_t>{1}));
  EXPECT_EQ(datum.target_tokens, (std::vector<int32_t>{2}));
  EXPECT_EQ(datum.mask, (std::vector<float>{1}));
  EXPECT_EQ(datum.weights, (std::vector<float>{0.5f}));
  EXPECT_EQ(datum.logprobs, (std::vector<float>{-1.5f}));
  EXPECT_EQ(datum.advantages, (std::vector<float>{2.5f}));
  EXPECT_EQ(datum.sampling.temperature, 0.7f);
  ASSERT_TRUE(datum.sampled_under.has_value());
  EXPECT_TRUE(datum.sampled_under->SameBits(State(200)));
  EXPECT_EQ(request.loss, (LossConfig{LossKind::kPpo, 0.7f, 1.3f}));
  EXPECT_EQ(request.agg_mode, LossAggMode::kTokenMean);
  EXPECT_EQ(request.micro_batch_size, 3);
}

void ExpectFullAdamW(const AdamWParams& adamw) {
  EXPECT_EQ(adamw.learning_rate, 1);
  EXPECT_EQ(adamw.beta1, 2);
  EXPECT_EQ(adamw.beta2, 3);
  EXPECT_EQ(adamw.epsilon, 4);
  EXPECT_EQ(adamw.weight_decay, 5);
  EXPECT_EQ(adamw.grad_clip_norm, 6);
}

TEST(TranslateTest, TrainingRequests) {
  const v1::TrainStepRequest message = FullTrainStep();
  const auto train_step = FromProto(message);
  ASSERT_TRUE(train_step.ok()) << train_step.status();
  ExpectFullGradientRequest(*train_step);
  ExpectFullAdamW(train_step->adamw);

  v1::ForwardBackwardRequest forward_backward;
  *forward_backward.mutable_call() = message.call();
  *forward_backward.mutable_data() = message.data();
  *forward_backward.mutable_loss() = message.loss();
  forward_backward.set_loss_agg_mode(message.loss_agg_mode());
  forward_backward.set_micro_batch_size(message.micro_batch_size());
  const auto split = FromProto(forward_backward);
  ASSERT_TRUE(split.ok());
  ExpectFullGradientRequest(*split);

  v1::OptimStepRequest optim_step;
  *optim_step.mutable_call() = message.call();
  *optim_step.mutable_adamw() = message.adamw();
  const auto step = FromProto(optim_step);
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step->call.seq_id, 4u);
  ExpectFullAdamW(step->adamw);
}

TEST(TranslateTest, TrainingDefaults) {
  v1::TrainStepRequest message;
  message.mutable_loss()->set_kind(v1::LOSS_KIND_CROSS_ENTROPY);
  message.add_data();
  const auto request = FromProto(message);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->loss, (LossConfig{LossKind::kCrossEntropy, 0.8f, 1.2f}));
  EXPECT_EQ(request->agg_mode, LossAggMode::kTokenSum);
  EXPECT_EQ(request->adamw.beta1, 0.9f);
  EXPECT_EQ(request->adamw.beta2, 0.95f);
  EXPECT_EQ(request->adamw.epsilon, 1e-8f);
  EXPECT_EQ(request->adamw.weight_decay, 0);
  EXPECT_EQ(request->adamw.grad_clip_norm, 0);
  EXPECT_EQ(request->data[0].sampling, SamplingParams{});
  EXPECT_FALSE(request->data[0].sampled_under.has_value());
}

TEST(TranslateTest, RefusesWhatAStructCannotHold) {
  const auto error = [](const std::function<void(v1::TrainStepRequest&)>& change) {
    v1::TrainStepRequest message = FullTrainStep();
    change(message);
    const auto request = FromProto(message);
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(request.status().message());
  };
  const std::string kinds = "loss.kind: must be LOSS_KIND_CROSS_ENTROPY or LOSS_KIND_PPO, is ";
  EXPECT_EQ(error([](auto& m) { m.clear_loss(); }), kinds + "LOSS_KIND_UNSPECIFIED");
  EXPECT_EQ(error([](auto& m) { m.mutable_loss()->set_kind(static_cast<v1::LossKind>(77)); }),
            kinds + "77");
  EXPECT_EQ(error([](auto& m) { m.set_loss_agg_mode(static_cast<v1::LossAggMode>(9)); }),
            "loss_agg_mode: must be LOSS_AGG_MODE_TOKEN_SUM or LOSS_AGG_MODE_TOKEN_MEAN, is 9");
  EXPECT_EQ(error([](auto& m) {
              m.mutable_data(0)->mutable_sampled_under()->set_state_id(std::string(31, 'x'));
            }),
            "data[0].sampled_under.state_id: must be 32 bytes, is 31");
}

TrainMetrics FullMetrics() {
  return {
      .loss = 1,
      .token_count = 2,
      .entropy = 3,
      .ppo_kl = 4,
      .pg_clipfrac = 5,
      .compared_tokens = 6,
      .mismatched_tokens = 7,
      .rollout_probs_diff_max = 8,
      .rollout_probs_diff_mean = 9,
      .k3_kl = 10,
      .first_mismatch =
          TokenMismatch{
              .datum_index = 11, .position = 12, .expected_bits = 0xfffffffe, .actual_bits = 14},
      .tokens_per_second = 15,
      .bubble_fraction = 16};
}

void ExpectFullMetrics(const v1::TrainMetrics& metrics) {
  ExpectAllFieldsSet(metrics);
  EXPECT_EQ(metrics.loss(), 1);
  EXPECT_EQ(metrics.token_count(), 2);
  EXPECT_EQ(metrics.entropy(), 3);
  EXPECT_EQ(metrics.ppo_kl(), 4);
  EXPECT_EQ(metrics.pg_clipfrac(), 5);
  EXPECT_EQ(metrics.compared_tokens(), 6);
  EXPECT_EQ(metrics.mismatched_tokens(), 7);
  EXPECT_EQ(metrics.rollout_probs_diff_max(), 8);
  EXPECT_EQ(metrics.rollout_probs_diff_mean(), 9);
  EXPECT_EQ(metrics.k3_kl(), 10);
  EXPECT_EQ(metrics.first_mismatch().datum_index(), 11);
  EXPECT_EQ(metrics.first_mismatch().position(), 12);
  EXPECT_EQ(metrics.first_mismatch().expected_bits(), 0xfffffffe);
  EXPECT_EQ(metrics.first_mismatch().actual_bits(), 14u);
  EXPECT_EQ(metrics.tokens_per_second(), 15);
  EXPECT_EQ(metrics.bubble_fraction(), 16);
}

void ExpectFullOptimMetrics(const v1::OptimMetrics& metrics) {
  ExpectAllFieldsSet(metrics);
  EXPECT_EQ(metrics.grad_norm(), 1);
  EXPECT_TRUE(metrics.skipped());
  EXPECT_EQ(metrics.non_finite_tensor(), "w");
  EXPECT_EQ(metrics.loss_denominator(), 2);
}

TEST(TranslateTest, TrainingResults) {
  const OptimMetrics optim{
      .grad_norm = 1, .skipped = true, .non_finite_tensor = "w", .loss_denominator = 2};
  v1::TrainStepResponse train_step;
  ToProto(TrainStepResult{.logprobs = {{-1}, {-2, -3}},
                          .metrics = FullMetrics(),
                          .optim = optim,
                          .weights = State(1)},
          train_step);
  ExpectAllFieldsSet(train_step);
  ASSERT_EQ(train_step.results_size(), 2);
  EXPECT_EQ(train_step.results(1).logprobs(1), -3);
  ExpectFullMetrics(train_step.metrics());
  ExpectFullOptimMetrics(train_step.optim_metrics());

  v1::ForwardBackwardResponse forward_backward;
  ToProto(ForwardBackwardResult{.logprobs = {{-1}}, .metrics = FullMetrics(), .weights = State(1)},
          forward_backward);
  ExpectAllFieldsSet(forward_backward);
  ExpectFullMetrics(forward_backward.metrics());

  v1::OptimStepResponse optim_step;
  ToProto(OptimStepResult{.metrics = optim, .weights = State(1)}, optim_step);
  ExpectAllFieldsSet(optim_step);
  ExpectFullOptimMetrics(optim_step.metrics());
}

TEST(TranslateTest, Parity) {
  v1::CheckParityRequest message;
  auto request = FromProto(message);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->num_prompts, 4);
  EXPECT_EQ(request->num_samples, 2);
  EXPECT_EQ(request->max_tokens, 32);
  EXPECT_EQ(request->temperature, 1);
  EXPECT_EQ(request->seed, 0u);

  message.set_num_samples(5);
  message.set_max_tokens(6);
  message.set_temperature(0.5f);
  message.set_seed(7);
  message.add_prompts()->add_token_ids(8);
  request = FromProto(message);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->prompts, (std::vector<std::vector<int32_t>>{{8}}));
  EXPECT_EQ(request->num_samples, 5);
  EXPECT_EQ(request->max_tokens, 6);
  EXPECT_EQ(request->temperature, 0.5f);
  EXPECT_EQ(request->seed, 7u);
  message.set_num_prompts(3);
  EXPECT_EQ(FromProto(message).status().message(),
            "num_prompts: only without prompts, which are given");

  ParityResult result;
  result.comparisons.resize(2);
  result.comparisons[0] = {.name = "score",
                           .compared_tokens = 10,
                           .mismatched_tokens = 2,
                           .first_mismatch = TokenMismatch{1, 2, 3, 4},
                           .k3_kl = 0.5};
  result.comparisons[1].name = "clean";
  result.comparisons[1].compared_tokens = 5;
  result.weights = State(1);
  result.weights_digest = "d1";
  v1::CheckParityResponse response;
  ToProto(result, response);
  EXPECT_FALSE(response.passed());
  EXPECT_EQ(response.compared_tokens(), 15);
  EXPECT_EQ(response.mismatched_tokens(), 2);
  EXPECT_EQ(response.weights_digest(), "d1");
  ExpectAllFieldsSet(response.comparisons(0));
  EXPECT_EQ(response.comparisons(0).name(), "score");
  EXPECT_EQ(response.comparisons(0).first_mismatch().actual_bits(), 4u);
  EXPECT_FALSE(response.comparisons(1).has_first_mismatch());
}

}  // namespace
}  // namespace lockstep::translate
