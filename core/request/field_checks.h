// Checks of single fields, shared by the requests of validate.h. Each returns OK or
// INVALID_ARGUMENT "<field>: must be <rule>, is <value>". Field names are paths in the words of
// proto/lockstep/v1, such as "data[3].advantages[7]".
#ifndef LOCKSTEP_CORE_REQUEST_FIELD_CHECKS_H_
#define LOCKSTEP_CORE_REQUEST_FIELD_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/request/sampling_params.h"

namespace lockstep::field_checks {

// "<field>: must be <rule>, is <value>".
absl::Status MustBe(absl::string_view field, absl::string_view rule, const absl::AlphaNum& value);

// "prefix.name", or "name" under an empty prefix.
std::string Path(absl::string_view prefix, absl::string_view name);
std::string Element(absl::string_view field, size_t index);

absl::Status InRange(absl::string_view field, int64_t value, int64_t low, int64_t high);
// Finite and >= 0.
absl::Status NonNegative(absl::string_view field, float value);
// Finite and > 0.
absl::Status Positive(absl::string_view field, float value);

// A temperature to sample at: finite and >= kTemperatureMin.
absl::Status Temperature(absl::string_view field, float value);

// Each token in [0, vocab_size). Says nothing about how many there are.
absl::Status TokensInVocabulary(absl::string_view field, const std::vector<int32_t>& tokens,
                                int64_t vocab_size);
// 1 to `context_length_max` tokens, each in the vocabulary.
absl::Status Sequence(absl::string_view field, const std::vector<int32_t>& tokens,
                      int64_t vocab_size, int64_t context_length_max);
// max_tokens >= 1, and a prompt of `prompt_length` plus max_tokens fits the context.
absl::Status FitsContext(int64_t prompt_length, int64_t max_tokens, int64_t context_length_max);
// What the sampler accepts; greedy and truncation among it.
absl::Status Sampling(absl::string_view field, const SamplingParams& sampling, int64_t vocab_size);

}  // namespace lockstep::field_checks

#endif  // LOCKSTEP_CORE_REQUEST_FIELD_CHECKS_H_
