#ifndef LOCKSTEP_CORE_REQUEST_SCORE_REQUEST_H_
#define LOCKSTEP_CORE_REQUEST_SCORE_REQUEST_H_

#include <cstdint>
#include <vector>

#include "core/request/weights_state.h"

namespace lockstep {

struct ScoreSequence {
  std::vector<int32_t> tokens;
  float temperature = 1;  // > 0
};

struct ScoreRequest {
  std::vector<ScoreSequence> sequences;
};

// All [N]; element 0 is NaN.
struct SequenceScore {
  std::vector<float> logprobs;      // nats, at the sequence's temperature
  std::vector<float> raw_logprobs;  // nats, at temperature 1
  std::vector<float> entropies;     // nats
};

struct ScoreResult {
  std::vector<SequenceScore> scores;
  WeightsState weights;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_REQUEST_SCORE_REQUEST_H_
