// Validate() of the training requests.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/request/field_checks.h"
#include "core/request/validate.h"

namespace lockstep {
namespace {

using field_checks::Element;
using field_checks::MustBe;
using field_checks::Path;

constexpr size_t kRunIdBytesMax = 128;

absl::Status ValidateCall(const CallId& call) {
  if (call.run_id.empty()) return absl::InvalidArgumentError("call.run_id: must not be empty");
  if (call.run_id.size() > kRunIdBytesMax) {
    return MustBe("call.run_id", absl::StrCat("at most ", kRunIdBytesMax, " bytes"),
                  call.run_id.size());
  }
  if (call.seq_id < 1) return MustBe("call.seq_id", ">= 1", call.seq_id);
  return absl::OkStatus();
}

absl::Status ValidateLoss(const LossConfig& loss) {
  if (!(loss.clip_low_threshold >= 0 && loss.clip_low_threshold <= 1)) {
    return MustBe("loss.clip_low_threshold", "in [0, 1]", loss.clip_low_threshold);
  }
  if (!(loss.clip_high_threshold >= 1)) {
    return MustBe("loss.clip_high_threshold", ">= 1", loss.clip_high_threshold);
  }
  return absl::OkStatus();
}

absl::Status ValidateAdamW(const AdamWParams& adamw) {
  LOCKSTEP_RETURN_IF_ERROR(field_checks::NonNegative("adamw.learning_rate", adamw.learning_rate));
  if (!(adamw.beta1 >= 0 && adamw.beta1 < 1)) {
    return MustBe("adamw.beta1", "in [0, 1)", adamw.beta1);
  }
  if (!(adamw.beta2 >= 0 && adamw.beta2 < 1)) {
    return MustBe("adamw.beta2", "in [0, 1)", adamw.beta2);
  }
  LOCKSTEP_RETURN_IF_ERROR(field_checks::Positive("adamw.epsilon", adamw.epsilon));
  LOCKSTEP_RETURN_IF_ERROR(field_checks::NonNegative("adamw.weight_decay", adamw.weight_decay));
  return field_checks::NonNegative("adamw.grad_clip_norm", adamw.grad_clip_norm);
}

// An array beside model_input: as long, or absent where it may be.
absl::Status ValidateLength(const std::string& field, size_t length, const Datum& datum,
                            bool required) {
  if (length == datum.model_input.size()) return absl::OkStatus();
  if (length == 0 && !required) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": has ", length, " elements where model_input has ", datum.length()));
}

absl::Status ValidateLengths(const std::string& datum_path, const Datum& datum, LossKind loss) {
  const bool is_ppo = loss == LossKind::kPpo;
  LOCKSTEP_RETURN_IF_ERROR(
      ValidateLength(Path(datum_path, "target_tokens"), datum.target_tokens.size(), datum, true));
  LOCKSTEP_RETURN_IF_ERROR(
      ValidateLength(Path(datum_path, "mask"), datum.mask.size(), datum, false));
  LOCKSTEP_RETURN_IF_ERROR(
      ValidateLength(Path(datum_path, "weights"), datum.weights.size(), datum, false));
  if (is_ppo && datum.logprobs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Path(datum_path, "logprobs"), ": required by ppo, is empty"));
  }
  LOCKSTEP_RETURN_IF_ERROR(
      ValidateLength(Path(datum_path, "logprobs"), datum.logprobs.size(), datum, false));
  if (is_ppo && datum.advantages.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Path(datum_path, "advantages"), ": required by ppo, is empty"));
  }
  return ValidateLength(Path(datum_path, "advantages"), datum.advantages.size(), datum, false);
}

absl::Status AllFinite(const std::string& field, const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return MustBe(Element(field, i), "finite", values[i]);
  }
  return absl::OkStatus();
}

absl::Status ValidateValues(const std::string& datum_path, const Datum& datum,
                            const RequestLimits& limits) {
  for (size_t i = 0; i < datum.mask.size(); ++i) {
    if (datum.mask[i] == 0 || datum.mask[i] == 1) continue;
    return MustBe(Element(Path(datum_path, "mask"), i), "0 or 1", datum.mask[i]);
  }
  const auto is_masked = [&](size_t i) { return !datum.mask.empty() && datum.mask[i] == 0; };
  for (size_t i = 0; i < datum.target_tokens.size(); ++i) {
    const int32_t token = datum.target_tokens[i];
    if (is_masked(i) || (token >= 0 && token < limits.vocab_size)) continue;
    return absl::InvalidArgumentError(absl::StrCat(Element(Path(datum_path, "target_tokens"), i),
                                                   ": ", token, " is outside the vocabulary [0, ",
                                                   limits.vocab_size, ")"));
  }
  for (size_t i = 0; i < datum.logprobs.size(); ++i) {
    if (is_masked(i) || std::isfinite(datum.logprobs[i])) continue;
    return MustBe(Element(Path(datum_path, "logprobs"), i), "finite where mask is 1",
                  datum.logprobs[i]);
  }
  LOCKSTEP_RETURN_IF_ERROR(AllFinite(Path(datum_path, "weights"), datum.weights));
  return AllFinite(Path(datum_path, "advantages"), datum.advantages);
}

// Training replays the temperature; what it cannot replay yet is refused by name.
absl::Status ValidateReplayable(const std::string& field, const SamplingParams& sampling,
                                const RequestLimits& limits) {
  LOCKSTEP_RETURN_IF_ERROR(field_checks::Sampling(field, sampling, limits.vocab_size));
  if (sampling.temperature == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(Path(field, "temperature"),
                     ": must be > 0, is 0: greedy data have no distribution to train"));
  }
  const auto refuse = [&](absl::string_view name, const absl::AlphaNum& value) {
    return absl::InvalidArgumentError(
        absl::StrCat(Path(field, name), ": data sampled with truncation cannot be replayed yet; ",
                     "must be off, is ", value));
  };
  if (sampling.top_p != 1) return refuse("top_p", sampling.top_p);
  if (sampling.top_k != 0) return refuse("top_k", sampling.top_k);
  if (sampling.min_p != 0) return refuse("min_p", sampling.min_p);
  return absl::OkStatus();
}

absl::Status ValidateDatum(const std::string& path, const Datum& datum, LossKind loss,
                           const RequestLimits& limits) {
  LOCKSTEP_RETURN_IF_ERROR(field_checks::Sequence(Path(path, "model_input"), datum.model_input,
                                                  limits.vocab_size, limits.context_length_max));
  LOCKSTEP_RETURN_IF_ERROR(ValidateLengths(path, datum, loss));
  LOCKSTEP_RETURN_IF_ERROR(ValidateValues(path, datum, limits));
  return ValidateReplayable(Path(path, "sampling_params"), datum.sampling, limits);
}

absl::Status ValidateData(const std::vector<Datum>& data, LossKind loss,
                          const RequestLimits& limits) {
  if (data.empty()) return absl::InvalidArgumentError("data: must have at least 1 datum, has 0");
  if (static_cast<int64_t>(data.size()) > limits.data_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: must have at most ", limits.data_max, " data, has ", data.size()));
  }
  for (size_t i = 0; i < data.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(ValidateDatum(Element("data", i), data[i], loss, limits));
  }
  return absl::OkStatus();
}

absl::Status ValidateMicroBatchSize(int32_t size) {
  if (size < 0) return MustBe("micro_batch_size", ">= 0", size);
  return absl::OkStatus();
}

bool HasUnmaskedToken(const std::vector<Datum>& data) {
  for (const Datum& datum : data) {
    if (datum.mask.empty()) return true;
    for (float mask : datum.mask) {
      if (mask != 0) return true;
    }
  }
  return false;
}

}  // namespace

absl::Status Validate(const ForwardBackwardRequest& request, const RequestLimits& limits) {
  LOCKSTEP_RETURN_IF_ERROR(ValidateCall(request.call));
  LOCKSTEP_RETURN_IF_ERROR(ValidateLoss(request.loss));
  LOCKSTEP_RETURN_IF_ERROR(ValidateMicroBatchSize(request.micro_batch_size));
  return ValidateData(request.data, request.loss.kind, limits);
}

absl::Status Validate(const OptimStepRequest& request, const RequestLimits&) {
  LOCKSTEP_RETURN_IF_ERROR(ValidateCall(request.call));
  return ValidateAdamW(request.adamw);
}

absl::Status Validate(const TrainStepRequest& request, const RequestLimits& limits) {
  LOCKSTEP_RETURN_IF_ERROR(ValidateCall(request.call));
  LOCKSTEP_RETURN_IF_ERROR(ValidateLoss(request.loss));
  LOCKSTEP_RETURN_IF_ERROR(ValidateAdamW(request.adamw));
  LOCKSTEP_RETURN_IF_ERROR(ValidateMicroBatchSize(request.micro_batch_size));
  LOCKSTEP_RETURN_IF_ERROR(ValidateData(request.data, request.loss.kind, limits));
  // A ForwardBackward may well bring only masked data; a whole step's mean cannot be over nothing.
  if (request.agg_mode == LossAggMode::kTokenMean && !HasUnmaskedToken(request.data)) {
    return absl::InvalidArgumentError(
        "data: token-mean needs a position with mask 1, all are masked");
  }
  return absl::OkStatus();
}

}  // namespace lockstep
