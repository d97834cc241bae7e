#ifndef LOCKSTEP_CORE_REQUEST_VALIDATE_H_
#define LOCKSTEP_CORE_REQUEST_VALIDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/request/generate_request.h"
#include "core/request/parity_request.h"
#include "core/request/score_request.h"
#include "core/request/train_request.h"

namespace lockstep {

// What a request is held against.
struct RequestLimits {
  int64_t vocab_size = 0;
  int64_t context_length_max = 0;  // positions
  int64_t num_samples_max = 0;     // samples of one request
  int64_t data_max = 0;            // data (or sequences) of one call
};

// OK, or INVALID_ARGUMENT naming field, index and value: the names of proto/lockstep/v1. Run before
// a request enters a queue, so that bad input changes nothing.
absl::Status Validate(const GenerateRequest& request, const RequestLimits& limits);
absl::Status Validate(const ScoreRequest& request, const RequestLimits& limits);
absl::Status Validate(const ForwardBackwardRequest& request, const RequestLimits& limits);
absl::Status Validate(const OptimStepRequest& request, const RequestLimits& limits);
absl::Status Validate(const TrainStepRequest& request, const RequestLimits& limits);
absl::Status Validate(const ParityRequest& request, const RequestLimits& limits);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_REQUEST_VALIDATE_H_
