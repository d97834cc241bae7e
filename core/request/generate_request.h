#ifndef LOCKSTEP_CORE_REQUEST_GENERATE_REQUEST_H_
#define LOCKSTEP_CORE_REQUEST_GENERATE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/request/sampling_params.h"
#include "core/request/weights_state.h"

namespace lockstep {

struct GenerateRequest {
  std::string request_id;  // for logs
  std::vector<int32_t> prompt;
  int32_t num_samples = 1;
  SamplingParams sampling;
  std::optional<uint64_t> seed;  // unset: a fresh one
  int32_t max_tokens = 16;
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  absl::Time deadline = absl::InfiniteFuture();
};

enum class FinishReason { kNone, kStop, kLength, kAborted };

// New tokens of one sample.
struct SampleDelta {
  int32_t sample_index = 0;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;      // nats, of the distribution drawn from
  std::vector<float> raw_logprobs;  // nats, whole vocabulary at temperature 1
  FinishReason finish_reason = FinishReason::kNone;
  int32_t stop_token = -1;
};

struct GenerateHeader {
  uint64_t seed_used = 0;
  WeightsState weights;
};

// Where a running request's tokens go. Called on the engine's thread, in order: OnStart once,
// OnDeltas once per engine step that made tokens, OnDone exactly once, last (OnStart may be missing
// when the request ends before it is admitted). Must not block and must not call the engine.
class GenerateObserver {
 public:
  virtual ~GenerateObserver() = default;
  virtual void OnStart(const GenerateHeader& header) = 0;
  virtual void OnDeltas(std::vector<SampleDelta> deltas) = 0;
  // OK when every sample finished by itself; CANCELLED, DEADLINE_EXCEEDED, INTERNAL (non-finite
  // logits, naming the place), UNAVAILABLE otherwise.
  virtual void OnDone(const absl::Status& status) = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_REQUEST_GENERATE_REQUEST_H_
