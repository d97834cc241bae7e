#include "core/request/field_checks.h"

#include <cmath>

#include "core/base/status_macros.h"

namespace lockstep::field_checks {

absl::Status MustBe(absl::string_view field, absl::string_view rule, const absl::AlphaNum& value) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": must be ", rule, ", is ", value));
}

std::string Path(absl::string_view prefix, absl::string_view name) {
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, ".", name);
}

std::string Element(absl::string_view field, size_t index) {
  return absl::StrCat(field, "[", index, "]");
}

absl::Status InRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return MustBe(field, absl::StrCat("in [", low, ", ", high, "]"), value);
}

absl::Status NonNegative(absl::string_view field, float value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return MustBe(field, ">= 0 and finite", value);
}

absl::Status Positive(absl::string_view field, float value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return MustBe(field, "> 0 and finite", value);
}

absl::Status Temperature(absl::string_view field, float value) {
  LOCKSTEP_RETURN_IF_ERROR(Positive(field, value));
  if (value >= kTemperatureMin) return absl::OkStatus();
  return MustBe(field, absl::StrCat(">= ", kTemperatureMin), value);
}

absl::Status TokensInVocabulary(absl::string_view field, const std::vector<int32_t>& tokens,
                                int64_t vocab_size) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        Element(field, i), ": ", tokens[i], " is outside the vocabulary [0, ", vocab_size, ")"));
  }
  return absl::OkStatus();
}

absl::Status Sequence(absl::string_view field, const std::vector<int32_t>& tokens,
                      int64_t vocab_size, int64_t context_length_max) {
  if (tokens.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": must have at least 1 token, has 0"));
  }
  if (static_cast<int64_t>(tokens.size()) > context_length_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": ", tokens.size(), " tokens exceed the model's context of ", context_length_max));
  }
  return TokensInVocabulary(field, tokens, vocab_size);
}

absl::Status FitsContext(int64_t prompt_length, int64_t max_tokens, int64_t context_length_max) {
  if (max_tokens < 1) return MustBe("max_tokens", ">= 1", max_tokens);
  if (prompt_length + max_tokens <= context_length_max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("max_tokens: prompt of ", prompt_length, " + max_tokens ", max_tokens,
                   " exceeds the model's context of ", context_length_max));
}

absl::Status Sampling(absl::string_view field, const SamplingParams& sampling, int64_t vocab_size) {
  const std::string temperature = Path(field, "temperature");
  LOCKSTEP_RETURN_IF_ERROR(NonNegative(temperature, sampling.temperature));
  if (sampling.temperature != 0) {
    LOCKSTEP_RETURN_IF_ERROR(Temperature(temperature, sampling.temperature));
  }
  // Comparisons are written so that NaN fails them.
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return MustBe(Path(field, "top_p"), "in (0, 1]", sampling.top_p);
  }
  LOCKSTEP_RETURN_IF_ERROR(InRange(Path(field, "top_k"), sampling.top_k, 0, vocab_size));
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) {
    return MustBe(Path(field, "min_p"), "in [0, 1]", sampling.min_p);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::field_checks
