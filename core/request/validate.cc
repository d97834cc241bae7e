#include "core/request/validate.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/request/field_checks.h"

namespace lockstep {
namespace {

// A request_id is copied into every message and log line of its request.
constexpr size_t kRequestIdBytesMax = 256;

}  // namespace

absl::Status Validate(const GenerateRequest& request, const RequestLimits& limits) {
  if (request.request_id.size() > kRequestIdBytesMax) {
    return field_checks::MustBe("request_id",
                                absl::StrCat("at most ", kRequestIdBytesMax, " bytes"),
                                request.request_id.size());
  }
  LOCKSTEP_RETURN_IF_ERROR(field_checks::Sequence("prompt_token_ids", request.prompt,
                                                  limits.vocab_size, limits.context_length_max));
  LOCKSTEP_RETURN_IF_ERROR(
      field_checks::InRange("num_samples", request.num_samples, 1, limits.num_samples_max));
  LOCKSTEP_RETURN_IF_ERROR(
      field_checks::Sampling("sampling_params", request.sampling, limits.vocab_size));
  LOCKSTEP_RETURN_IF_ERROR(field_checks::FitsContext(
      static_cast<int64_t>(request.prompt.size()), request.max_tokens, limits.context_length_max));
  return field_checks::TokensInVocabulary("stop_token_ids", request.stop_token_ids,
                                          limits.vocab_size);
}

absl::Status Validate(const ScoreRequest& request, const RequestLimits& limits) {
  if (request.sequences.empty()) {
    return absl::InvalidArgumentError("sequences: must have at least 1 sequence, has 0");
  }
  if (static_cast<int64_t>(request.sequences.size()) > limits.data_max) {
    return absl::InvalidArgumentError(absl::StrCat("sequences: must have at most ", limits.data_max,
                                                   " sequences, has ", request.sequences.size()));
  }
  for (size_t i = 0; i < request.sequences.size(); ++i) {
    const ScoreSequence& sequence = request.sequences[i];
    const std::string field = field_checks::Element("sequences", i);
    LOCKSTEP_RETURN_IF_ERROR(field_checks::Sequence(field_checks::Path(field, "token_ids"),
                                                    sequence.tokens, limits.vocab_size,
                                                    limits.context_length_max));
    // Greedy has no distribution to score under.
    LOCKSTEP_RETURN_IF_ERROR(field_checks::Temperature(
        field_checks::Path(field, "sampling_params.temperature"), sequence.temperature));
  }
  return absl::OkStatus();
}

absl::Status Validate(const ParityRequest& request, const RequestLimits& limits) {
  const int64_t num_prompts =
      request.prompts.empty() ? request.num_prompts : static_cast<int64_t>(request.prompts.size());
  LOCKSTEP_RETURN_IF_ERROR(field_checks::InRange(
      request.prompts.empty() ? "num_prompts" : "prompts", num_prompts, 1, limits.data_max));
  LOCKSTEP_RETURN_IF_ERROR(
      field_checks::InRange("num_samples", request.num_samples, 1, limits.num_samples_max));
  // Each rollout is a datum of the training comparisons.
  if (num_prompts * request.num_samples > limits.data_max) {
    return absl::InvalidArgumentError(absl::StrCat("num_samples: ", num_prompts, " prompts x ",
                                                   request.num_samples, " samples exceed data_max ",
                                                   limits.data_max));
  }
  LOCKSTEP_RETURN_IF_ERROR(field_checks::Temperature("temperature", request.temperature));
  // A drawn prompt has at least one token.
  LOCKSTEP_RETURN_IF_ERROR(
      field_checks::FitsContext(1, request.max_tokens, limits.context_length_max));
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string field = field_checks::Path(field_checks::Element("prompts", i), "token_ids");
    LOCKSTEP_RETURN_IF_ERROR(field_checks::Sequence(field, request.prompts[i], limits.vocab_size,
                                                    limits.context_length_max));
    LOCKSTEP_RETURN_IF_ERROR(
        field_checks::FitsContext(static_cast<int64_t>(request.prompts[i].size()),
                                  request.max_tokens, limits.context_length_max));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
