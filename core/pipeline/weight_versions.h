// Which weights exist: the current version, and older ones that somebody pinned. A version's
// compute weights are dropped from all stages when its last pin goes and it is not current.
//
// Belongs to the engine loop's thread. Not synchronised.
#ifndef LOCKSTEP_CORE_PIPELINE_WEIGHT_VERSIONS_H_
#define LOCKSTEP_CORE_PIPELINE_WEIGHT_VERSIONS_H_

#include <cstdint>
#include <map>

#include "core/pipeline/pipeline.h"
#include "core/request/weights_state.h"

namespace lockstep {

class WeightVersions {
 public:
  // `pipeline` is borrowed; it holds the weights of `initial`.
  WeightVersions(Pipeline* pipeline, WeightsState initial);

  const WeightsState& current() const { return current_; }

  // Keeps the current weights until Unpin; the state that was pinned.
  WeightsState Pin();
  // REQUIRES: `version` has a pin.
  void Unpin(uint64_t version);

  // The stages hold `next` beside the current weights; it becomes current.
  void Advance(WeightsState next);

  // Versions held only by pins.
  int64_t retired_count() const;

 private:
  Pipeline* const pipeline_;
  WeightsState current_;
  std::map<uint64_t, int64_t> pins_;  // by version; never 0
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_WEIGHT_VERSIONS_H_
