#ifndef LOCKSTEP_CORE_REQUEST_PARITY_REQUEST_H_
#define LOCKSTEP_CORE_REQUEST_PARITY_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/request/train_request.h"
#include "core/request/weights_state.h"

namespace lockstep {

struct ParityRequest {
  std::vector<std::vector<int32_t>> prompts;  // empty: num_prompts drawn from the seed
  int32_t num_prompts = 4;
  int32_t num_samples = 2;
  int32_t max_tokens = 32;
  float temperature = 1;  // > 0
  uint64_t seed = 0;
};

// One path over the sampled tokens, against the log-probs that they were sampled with.
struct ParityComparison {
  std::string name;
  int64_t compared_tokens = 0;
  int64_t mismatched_tokens = 0;
  std::optional<TokenMismatch> first_mismatch;
  double k3_kl = 0;
};

struct ParityResult {
  std::vector<ParityComparison> comparisons;
  WeightsState weights;
  std::string weights_digest;

  int64_t compared_tokens() const {
    int64_t sum = 0;
    for (const ParityComparison& c : comparisons) sum += c.compared_tokens;
    return sum;
  }
  int64_t mismatched_tokens() const {
    int64_t sum = 0;
    for (const ParityComparison& c : comparisons) sum += c.mismatched_tokens;
    return sum;
  }
  // Something was compared on every path, and nothing differs.
  bool passed() const;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_REQUEST_PARITY_REQUEST_H_
