// Cuts the data of a training call into micro-batches: a pure function.
#ifndef LOCKSTEP_CORE_TRAIN_MICRO_BATCHES_H_
#define LOCKSTEP_CORE_TRAIN_MICRO_BATCHES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/pipeline/step_plan.h"
#include "core/request/train_request.h"

namespace lockstep {

// Rows of a micro-batch, unless one datum alone has more. What a stage keeps for the backward grows
// with them, so a request's micro_batch_size must not be all that bounds it.
inline constexpr int64_t kMicroBatchRowsMax = 2048;

// Runs of up to `micro_batch_size` data and kMicroBatchRowsMax rows, in order; each packed end to
// end without padding, every datum a sequence of its own from position 0. `page_size` as the
// stages' KV pages.
// REQUIRES: validated data, micro_batch_size >= 1.
std::vector<TrainingMicroBatch> MakeMicroBatches(absl::Span<const Datum> data,
                                                 int64_t micro_batch_size, int64_t page_size);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_TRAIN_MICRO_BATCHES_H_
