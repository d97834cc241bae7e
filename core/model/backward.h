#ifndef LOCKSTEP_CORE_MODEL_BACKWARD_H_
#define LOCKSTEP_CORE_MODEL_BACKWARD_H_

#include <cstdint>
#include <vector>

#include "core/model/forward.h"
#include "core/model/optimizer_state.h"

namespace lockstep {

// Rows at which each datum of the batch begins, and the row count behind them: the "datum_begins"
// of kernels.h. REQUIRES: every sequence is a whole datum.
std::vector<int64_t> DatumBegins(const TokenBatch& batch);

// Mirrors Forward line for line, in reverse. `activations`, `kv` and `weights` are those of the
// forward of the same batch, kept in full; every sequence of the batch is a whole datum (first
// position 0), in canonical order.
//
// dhidden[M, H]: gradient of the stage's output, overwritten with the gradient of its input (on
// the first stage it goes to the embedding and is meaningless afterwards). Weight gradients are
// added to `gradients`.
void Backward(const StageContext& context, const WeightView& weights, const TokenBatch& batch,
              KvArena& kv, Activations& activations, OptimizerState& gradients, float* dhidden);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_BACKWARD_H_
