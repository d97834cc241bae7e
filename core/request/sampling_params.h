#ifndef LOCKSTEP_CORE_REQUEST_SAMPLING_PARAMS_H_
#define LOCKSTEP_CORE_REQUEST_SAMPLING_PARAMS_H_

#include <cstdint>

namespace lockstep {

// Smallest temperature that is not greedy: logits up to 3e32 divided by it stay finite.
inline constexpr float kTemperatureMin = 1e-6f;

// How a token is drawn from a row of logits. A plain value; see docs/numerics.md, "Sampling".
struct SamplingParams {
  float temperature = 1;  // 0, greedy, or >= kTemperatureMin
  float top_p = 1;        // (0, 1]; 1 is off
  int32_t top_k = 0;      // 0 is off
  float min_p = 0;        // [0, 1]; 0 is off

  bool truncates() const { return top_p != 1 || top_k != 0 || min_p != 0; }
  bool operator==(const SamplingParams&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_REQUEST_SAMPLING_PARAMS_H_
