// A request off the wire: its kind in the first byte, then the message. Translated and validated,
// or INVALID_ARGUMENT; what is valid is within the limits it was held against.
#include <cstdint>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/request/validate.h"
#include "proto/lockstep/v1/lockstep.pb.h"
#include "server/translate.h"

namespace lockstep {
namespace {

constexpr RequestLimits kLimits = {
    .vocab_size = 259, .context_length_max = 64, .num_samples_max = 8, .data_max = 16};

void CheckToken(int32_t token) { LOCKSTEP_CHECK(token >= 0 && token < kLimits.vocab_size); }

void CheckValid(const GenerateRequest& request) {
  for (const int32_t token : request.prompt) CheckToken(token);
  LOCKSTEP_CHECK(!request.prompt.empty() && request.max_tokens >= 1);
  LOCKSTEP_CHECK_LE(static_cast<int64_t>(request.prompt.size()) + request.max_tokens,
                    kLimits.context_length_max);
}
void CheckValid(const ScoreRequest& request) {
  for (const ScoreSequence& sequence : request.sequences) {
    for (const int32_t token : sequence.tokens) CheckToken(token);
  }
}
void CheckData(const std::vector<Datum>& data) {
  for (const Datum& datum : data) {
    LOCKSTEP_CHECK(datum.length() >= 1 && datum.length() <= kLimits.context_length_max);
    LOCKSTEP_CHECK_EQ(datum.target_tokens.size(), datum.model_input.size());
    for (const int32_t token : datum.model_input) CheckToken(token);
  }
}
void CheckValid(const ForwardBackwardRequest& request) { CheckData(request.data); }
void CheckValid(const TrainStepRequest& request) { CheckData(request.data); }
void CheckValid(const OptimStepRequest& /*request*/) {}
void CheckValid(const ParityRequest& request) {
  for (const auto& prompt : request.prompts) {
    for (const int32_t token : prompt) CheckToken(token);
  }
}

template <typename Message>
void Handle(const uint8_t* data, size_t size) {
  Message message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return;
  const auto request = translate::FromProto(message);
  const absl::Status status = request.ok() ? Validate(*request, kLimits) : request.status();
  if (status.ok()) {
    CheckValid(*request);
  } else {
    LOCKSTEP_CHECK(absl::IsInvalidArgument(status)) << status;
  }
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  switch (*data % 6) {
    case 0:
      Handle<v1::GenerateRequest>(data + 1, size - 1);
      break;
    case 1:
      Handle<v1::ScoreRequest>(data + 1, size - 1);
      break;
    case 2:
      Handle<v1::ForwardBackwardRequest>(data + 1, size - 1);
      break;
    case 3:
      Handle<v1::OptimStepRequest>(data + 1, size - 1);
      break;
    case 4:
      Handle<v1::TrainStepRequest>(data + 1, size - 1);
      break;
    default:
      Handle<v1::CheckParityRequest>(data + 1, size - 1);
  }
  return 0;
}
