// The metrics of a training call, from what each token gave: sums in double, in canonical order, so
// that they do not depend on the split either. Includes the run-time parity check.
#ifndef LOCKSTEP_CORE_TRAIN_TRAIN_METRICS_H_
#define LOCKSTEP_CORE_TRAIN_TRAIN_METRICS_H_

#include "absl/types/span.h"
#include "core/pipeline/step_plan.h"
#include "core/request/train_request.h"

namespace lockstep {

// Outputs per datum, as views into the micro-batches' arrays.
struct DatumOutputs {
  absl::Span<const float> logprob;
  absl::Span<const float> entropy;
  absl::Span<const float> loss;
  absl::Span<const uint8_t> clipped;
};
std::vector<DatumOutputs> SplitByDatum(absl::Span<const Datum> data,
                                       absl::Span<const TokenLossOutputs> micro_batches);

// Everything but the two measured fields, tokens_per_second and bubble_fraction. `state` is the one
// the outputs were computed under.
TrainMetrics ComputeMetrics(absl::Span<const Datum> data, absl::Span<const DatumOutputs> outputs,
                            LossAggMode agg_mode, const WeightsState& state);

// Unmasked positions.
int64_t CountTokens(absl::Span<const Datum> data);

// Bitwise equality of log-probs as the parity checks mean it: integers, NaN of any payload equal to
// NaN.
bool SameBits(float a, float b);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_TRAIN_TRAIN_METRICS_H_
