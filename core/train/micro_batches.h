// Cuts the data of a training call into micro-batches: a pure function.
#ifndef LOCKSTEP_CORE_TRAIN_MICRO_BATCHES_H_
#define LOCKSTEP_CORE_TRAIN_MICRO_BATCHES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/pipeline/step_plan.h"
#include "core/request/train_request.h"

namespace lockstep {

// Runs of `micro_batch_size` data, in order, the last one shorter; each packed end to end without
// padding, every datum a sequence of its own from position 0. `page_size` as the stages' KV pages.
// REQUIRES: validated data, micro_batch_size >= 1.
std::vector<TrainingMicroBatch> MakeMicroBatches(absl::Span<const Datum> data,
                                                 int64_t micro_batch_size, int64_t page_size);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_TRAIN_MICRO_BATCHES_H_
