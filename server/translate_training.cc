// translate.h for ForwardBackward, OptimStep and TrainStep.
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/translate.h"

namespace lockstep::translate {
namespace {

CallId FromProto(const v1::CallId& call) {
  return {.run_id = call.run_id(), .seq_id = call.seq_id()};
}

absl::StatusOr<LossConfig> FromProto(const v1::LossConfig& loss) {
  LossConfig out;
  switch (loss.kind()) {
    case v1::LOSS_KIND_CROSS_ENTROPY:
      out.kind = LossKind::kCrossEntropy;
      break;
    case v1::LOSS_KIND_PPO:
      out.kind = LossKind::kPpo;
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "loss.kind: must be LOSS_KIND_CROSS_ENTROPY or LOSS_KIND_PPO, is ",
          v1::LossKind_IsValid(loss.kind()) ? v1::LossKind_Name(loss.kind())
                                            : absl::StrCat(static_cast<int>(loss.kind()))));
  }
  if (loss.has_clip_low_threshold()) out.clip_low_threshold = loss.clip_low_threshold();
  if (loss.has_clip_high_threshold()) out.clip_high_threshold = loss.clip_high_threshold();
  return out;
}

absl::StatusOr<LossAggMode> FromProto(v1::LossAggMode mode) {
  switch (mode) {
    case v1::LOSS_AGG_MODE_UNSPECIFIED:
    case v1::LOSS_AGG_MODE_TOKEN_SUM:
      return LossAggMode::kTokenSum;
    case v1::LOSS_AGG_MODE_TOKEN_MEAN:
      return LossAggMode::kTokenMean;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "loss_agg_mode: must be LOSS_AGG_MODE_TOKEN_SUM or LOSS_AGG_MODE_TOKEN_MEAN, is ",
          static_cast<int>(mode)));
  }
}

AdamWParams FromProto(const v1::AdamWParams& adamw) {
  AdamWParams out;
  out.learning_rate = adamw.learning_rate();
  if (adamw.has_beta1()) out.beta1 = adamw.beta1();
  if (adamw.has_beta2()) out.beta2 = adamw.beta2();
  if (adamw.has_epsilon()) out.epsilon = adamw.epsilon();
  if (adamw.has_weight_decay()) out.weight_decay = adamw.weight_decay();
  if (adamw.has_grad_clip_norm()) out.grad_clip_norm = adamw.grad_clip_norm();
  return out;
}

absl::StatusOr<Datum> FromProto(const v1::Datum& datum, const std::string& field) {
  Datum out;
  out.model_input.assign(datum.model_input().begin(), datum.model_input().end());
  out.target_tokens.assign(datum.target_tokens().begin(), datum.target_tokens().end());
  out.mask.assign(datum.mask().begin(), datum.mask().end());
  out.weights.assign(datum.weights().begin(), datum.weights().end());
  out.logprobs.assign(datum.logprobs().begin(), datum.logprobs().end());
  out.advantages.assign(datum.advantages().begin(), datum.advantages().end());
  out.sampling = translate::FromProto(datum.sampling_params());
  if (datum.has_sampled_under()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        out.sampled_under, translate::FromProto(datum.sampled_under(), field + ".sampled_under"));
  }
  return out;
}

// The fields that ForwardBackward and TrainStep share.
template <typename Request, typename ProtoRequest>
absl::Status FillGradientRequest(const ProtoRequest& request, Request& out) {
  out.call = FromProto(request.call());
  LOCKSTEP_ASSIGN_OR_RETURN(out.loss, FromProto(request.loss()));
  LOCKSTEP_ASSIGN_OR_RETURN(out.agg_mode, FromProto(request.loss_agg_mode()));
  out.micro_batch_size = request.micro_batch_size();
  out.data.reserve(request.data_size());
  for (int i = 0; i < request.data_size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(Datum datum,
                              FromProto(request.data(i), absl::StrCat("data[", i, "]")));
    out.data.push_back(std::move(datum));
  }
  return absl::OkStatus();
}

void ToProto(const TrainMetrics& metrics, v1::TrainMetrics& out) {
  out.set_loss(metrics.loss);
  out.set_token_count(metrics.token_count);
  out.set_entropy(metrics.entropy);
  out.set_ppo_kl(metrics.ppo_kl);
  out.set_pg_clipfrac(metrics.pg_clipfrac);
  out.set_compared_tokens(metrics.compared_tokens);
  out.set_mismatched_tokens(metrics.mismatched_tokens);
  out.set_rollout_probs_diff_max(metrics.rollout_probs_diff_max);
  out.set_rollout_probs_diff_mean(metrics.rollout_probs_diff_mean);
  out.set_k3_kl(metrics.k3_kl);
  if (metrics.first_mismatch.has_value()) {
    translate::ToProto(*metrics.first_mismatch, *out.mutable_first_mismatch());
  }
  out.set_tokens_per_second(metrics.tokens_per_second);
  out.set_bubble_fraction(metrics.bubble_fraction);
}

void ToProto(const OptimMetrics& metrics, v1::OptimMetrics& out) {
  out.set_grad_norm(metrics.grad_norm);
  out.set_skipped(metrics.skipped);
  out.set_non_finite_tensor(metrics.non_finite_tensor);
  out.set_loss_denominator(metrics.loss_denominator);
}

void ToProto(const std::vector<std::vector<float>>& logprobs,
             google::protobuf::RepeatedPtrField<v1::DatumResult>& out) {
  for (const std::vector<float>& datum : logprobs) {
    out.Add()->mutable_logprobs()->Add(datum.begin(), datum.end());
  }
}

}  // namespace

absl::StatusOr<ForwardBackwardRequest> FromProto(const v1::ForwardBackwardRequest& request) {
  ForwardBackwardRequest out;
  LOCKSTEP_RETURN_IF_ERROR(FillGradientRequest(request, out));
  return out;
}

absl::StatusOr<OptimStepRequest> FromProto(const v1::OptimStepRequest& request) {
  OptimStepRequest out;
  out.call = FromProto(request.call());
  out.adamw = FromProto(request.adamw());
  return out;
}

absl::StatusOr<TrainStepRequest> FromProto(const v1::TrainStepRequest& request) {
  TrainStepRequest out;
  LOCKSTEP_RETURN_IF_ERROR(FillGradientRequest(request, out));
  out.adamw = FromProto(request.adamw());
  return out;
}

void ToProto(const TokenMismatch& mismatch, v1::TokenMismatch& out) {
  out.set_datum_index(mismatch.datum_index);
  out.set_position(mismatch.position);
  out.set_expected_bits(mismatch.expected_bits);
  out.set_actual_bits(mismatch.actual_bits);
}

void ToProto(const ForwardBackwardResult& result, v1::ForwardBackwardResponse& out) {
  ToProto(result.logprobs, *out.mutable_results());
  ToProto(result.metrics, *out.mutable_metrics());
  ToProto(result.weights, *out.mutable_weights());
}

void ToProto(const OptimStepResult& result, v1::OptimStepResponse& out) {
  ToProto(result.metrics, *out.mutable_metrics());
  ToProto(result.weights, *out.mutable_weights());
}

void ToProto(const TrainStepResult& result, v1::TrainStepResponse& out) {
  ToProto(result.logprobs, *out.mutable_results());
  ToProto(result.metrics, *out.mutable_metrics());
  ToProto(result.optim, *out.mutable_optim_metrics());
  ToProto(result.weights, *out.mutable_weights());
}

}  // namespace lockstep::translate
