// translate.h for Generate, Score and CheckParity, and for the values they share.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/translate.h"

namespace lockstep::translate {
namespace {

std::vector<int32_t> Tokens(const google::protobuf::RepeatedField<int32_t>& tokens) {
  return {tokens.begin(), tokens.end()};
}

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kAborted:
      return v1::FINISH_REASON_ABORTED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

// The struct has no place for truncation: scores are over the whole vocabulary.
absl::Status RefuseTruncation(const SamplingParams& sampling, const std::string& field) {
  const auto refuse = [&](absl::string_view name, const absl::AlphaNum& value) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".", name, ": scores under truncation are not available; must be off, is ", value));
  };
  if (sampling.top_p != 1) return refuse("top_p", sampling.top_p);
  if (sampling.top_k != 0) return refuse("top_k", sampling.top_k);
  if (sampling.min_p != 0) return refuse("min_p", sampling.min_p);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WeightsState> FromProto(const v1::WeightsState& state, const std::string& field) {
  WeightsState out;
  if (state.state_id().size() != out.state_id.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".state_id: must be ", out.state_id.size(), " bytes, is ", state.state_id().size()));
  }
  std::copy(state.state_id().begin(), state.state_id().end(), out.state_id.begin());
  out.weight_version = state.weight_version();
  out.numerics_id = state.numerics_id();
  return out;
}

void ToProto(const WeightsState& state, v1::WeightsState& out) {
  out.mutable_state_id()->assign(state.state_id.begin(), state.state_id.end());
  out.set_weight_version(state.weight_version);
  out.set_numerics_id(state.numerics_id);
}

SamplingParams FromProto(const v1::SamplingParams& sampling) {
  SamplingParams out;
  if (sampling.has_temperature()) out.temperature = sampling.temperature();
  if (sampling.has_top_p()) out.top_p = sampling.top_p();
  out.top_k = sampling.top_k();
  if (sampling.has_min_p()) out.min_p = sampling.min_p();
  return out;
}

absl::StatusOr<GenerateRequest> FromProto(const v1::GenerateRequest& request) {
  GenerateRequest out;
  out.request_id = request.request_id();
  out.prompt = Tokens(request.prompt_token_ids());
  if (request.has_num_samples()) out.num_samples = request.num_samples();
  out.sampling = FromProto(request.sampling_params());
  if (request.has_seed()) out.seed = request.seed();
  if (request.has_max_tokens()) out.max_tokens = request.max_tokens();
  out.stop_token_ids = Tokens(request.stop_token_ids());
  out.ignore_eos = request.ignore_eos();
  return out;
}

void ToProto(const GenerateHeader& header, v1::GenerateHeader& out) {
  out.set_seed_used(header.seed_used);
  ToProto(header.weights, *out.mutable_weights());
}

void AppendToProto(const SampleDelta& delta, v1::SampleDelta& out) {
  out.set_sample_index(delta.sample_index);
  out.mutable_token_ids()->Add(delta.tokens.begin(), delta.tokens.end());
  out.mutable_logprobs()->Add(delta.logprobs.begin(), delta.logprobs.end());
  out.mutable_raw_logprobs()->Add(delta.raw_logprobs.begin(), delta.raw_logprobs.end());
  out.set_finish_reason(ToProto(delta.finish_reason));
  if (delta.finish_reason == FinishReason::kStop) out.set_stop_token_id(delta.stop_token);
}

absl::StatusOr<ScoreRequest> FromProto(const v1::ScoreRequest& request) {
  ScoreRequest out;
  out.sequences.reserve(request.sequences_size());
  for (int i = 0; i < request.sequences_size(); ++i) {
    const v1::ScoreSequence& sequence = request.sequences(i);
    const SamplingParams sampling = FromProto(sequence.sampling_params());
    LOCKSTEP_RETURN_IF_ERROR(
        RefuseTruncation(sampling, absl::StrCat("sequences[", i, "].sampling_params")));
    out.sequences.push_back(
        {.tokens = Tokens(sequence.token_ids()), .temperature = sampling.temperature});
  }
  return out;
}

void ToProto(const ScoreResult& result, v1::ScoreResponse& out) {
  for (const SequenceScore& score : result.scores) {
    v1::SequenceScore& one = *out.add_scores();
    one.mutable_logprobs()->Add(score.logprobs.begin(), score.logprobs.end());
    one.mutable_raw_logprobs()->Add(score.raw_logprobs.begin(), score.raw_logprobs.end());
    one.mutable_entropies()->Add(score.entropies.begin(), score.entropies.end());
  }
  ToProto(result.weights, *out.mutable_weights());
}

absl::StatusOr<ParityRequest> FromProto(const v1::CheckParityRequest& request) {
  if (request.prompts_size() > 0 && request.has_num_prompts()) {
    return absl::InvalidArgumentError("num_prompts: only without prompts, which are given");
  }
  ParityRequest out;
  for (const v1::TokenList& prompt : request.prompts()) {
    out.prompts.push_back(Tokens(prompt.token_ids()));
  }
  if (request.has_num_prompts()) out.num_prompts = request.num_prompts();
  if (request.has_num_samples()) out.num_samples = request.num_samples();
  if (request.has_max_tokens()) out.max_tokens = request.max_tokens();
  if (request.has_temperature()) out.temperature = request.temperature();
  if (request.has_seed()) out.seed = request.seed();
  return out;
}

void ToProto(const ParityResult& result, v1::CheckParityResponse& out) {
  out.set_passed(result.passed());
  out.set_compared_tokens(result.compared_tokens());
  out.set_mismatched_tokens(result.mismatched_tokens());
  for (const ParityComparison& comparison : result.comparisons) {
    v1::ParityComparison& one = *out.add_comparisons();
    one.set_name(comparison.name);
    one.set_compared_tokens(comparison.compared_tokens);
    one.set_mismatched_tokens(comparison.mismatched_tokens);
    if (comparison.first_mismatch.has_value()) {
      ToProto(*comparison.first_mismatch, *one.mutable_first_mismatch());
    }
    one.set_k3_kl(comparison.k3_kl);
  }
  ToProto(result.weights, *out.mutable_weights());
  out.set_weights_digest(result.weights_digest);
}

}  // namespace lockstep::translate
