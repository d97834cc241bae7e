// Between the wire and the plain structs of core/request. Requests come in: a value that the struct
// cannot hold (an unknown loss, a state_id of another length) is INVALID_ARGUMENT naming the field;
// everything else is checked by core/request/validate.h. Answers go out.
//
// Pure functions.
#ifndef LOCKSTEP_SERVER_TRANSLATE_H_
#define LOCKSTEP_SERVER_TRANSLATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/request/generate_request.h"
#include "core/request/parity_request.h"
#include "core/request/score_request.h"
#include "core/request/train_request.h"
#include "core/request/weights_state.h"
#include "proto/lockstep/v1/generation.pb.h"
#include "proto/lockstep/v1/lockstep.pb.h"
#include "proto/lockstep/v1/training.pb.h"
#include "proto/lockstep/v1/types.pb.h"

namespace lockstep::translate {

// `field`: where the state stands in the request, for the message of an error.
absl::StatusOr<WeightsState> FromProto(const v1::WeightsState& state, const std::string& field);
SamplingParams FromProto(const v1::SamplingParams& sampling);

// The deadline is the call's, not the message's: the caller sets it.
absl::StatusOr<GenerateRequest> FromProto(const v1::GenerateRequest& request);
absl::StatusOr<ScoreRequest> FromProto(const v1::ScoreRequest& request);
absl::StatusOr<ForwardBackwardRequest> FromProto(const v1::ForwardBackwardRequest& request);
absl::StatusOr<OptimStepRequest> FromProto(const v1::OptimStepRequest& request);
absl::StatusOr<TrainStepRequest> FromProto(const v1::TrainStepRequest& request);
absl::StatusOr<ParityRequest> FromProto(const v1::CheckParityRequest& request);

// Each fills an empty message.
void ToProto(const WeightsState& state, v1::WeightsState& out);
void ToProto(const GenerateHeader& header, v1::GenerateHeader& out);
void ToProto(const ScoreResult& result, v1::ScoreResponse& out);
void ToProto(const ForwardBackwardResult& result, v1::ForwardBackwardResponse& out);
void ToProto(const OptimStepResult& result, v1::OptimStepResponse& out);
void ToProto(const TrainStepResult& result, v1::TrainStepResponse& out);
void ToProto(const ParityResult& result, v1::CheckParityResponse& out);
void ToProto(const TokenMismatch& mismatch, v1::TokenMismatch& out);

// Adds the tokens of `delta` at the end of those in `out`, which may have some of the same sample.
void AppendToProto(const SampleDelta& delta, v1::SampleDelta& out);

}  // namespace lockstep::translate

#endif  // LOCKSTEP_SERVER_TRANSLATE_H_
