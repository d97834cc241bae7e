#ifndef LOCKSTEP_CORE_REQUEST_WEIGHTS_STATE_H_
#define LOCKSTEP_CORE_REQUEST_WEIGHTS_STATE_H_

#include <array>
#include <cstdint>
#include <string>

namespace lockstep {

using StateId = std::array<uint8_t, 32>;

// Which weights, under which arithmetic: what an answer is a function of, beside its request.
struct WeightsState {
  StateId state_id = {};
  uint64_t weight_version = 0;
  std::string numerics_id;

  // True when the two give the same bits; the version is for people.
  bool SameBits(const WeightsState& other) const {
    return state_id == other.state_id && numerics_id == other.numerics_id;
  }
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_REQUEST_WEIGHTS_STATE_H_
