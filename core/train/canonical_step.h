// A training step as a value: the ordered, resolved data and the options that the new weights are a
// function of, and nothing else. What is not here (micro-batches, call boundaries, run names,
// stages, threads) cannot move a bit. The executor runs it; weights are named by it.
#ifndef LOCKSTEP_CORE_TRAIN_CANONICAL_STEP_H_
#define LOCKSTEP_CORE_TRAIN_CANONICAL_STEP_H_

#include <string>
#include <vector>

#include "core/base/sha256.h"
#include "core/request/train_request.h"
#include "core/request/weights_state.h"
#include "kernels/shapes.h"

namespace lockstep {

// A datum with the loss that its call asked for.
struct CanonicalDatum {
  Datum datum;
  LossConfig loss;
};

struct CanonicalStep {
  std::vector<CanonicalDatum> data;  // order of arrival: seq_id, then index
  LossAggMode agg_mode = LossAggMode::kTokenSum;
  AdamWParams adamw;
};

// Writes the value's bytes into `hash`: fixed-width little-endian fields, lengths before arrays,
// floats by their bits. Human-readable counters (weight_version) are left out.
void Update(Sha256& hash, const Datum& datum);
void Update(Sha256& hash, const LossConfig& loss);
void Update(Sha256& hash, const AdamWParams& adamw);
void Update(Sha256& hash, const CanonicalStep& step);

// 32 hexadecimal digits, high half first.
std::string DigestHex(const kernels::Digest128& digest);

// The state of freshly loaded weights.
StateId RootStateId(const std::string& weights_digest, const std::string& numerics_id);
// The state after `step` was applied to `parent`.
StateId NextStateId(const StateId& parent, const CanonicalStep& step,
                    const std::string& numerics_id);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_TRAIN_CANONICAL_STEP_H_
