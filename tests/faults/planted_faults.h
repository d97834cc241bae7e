// Faults of the kinds met in the field, planted in the kernels of an engine: the negative controls
// of every check. Each depends on something that must not show (batch, phase, page, packing,
// threads, a step taken) and is healthy otherwise, so only a comparison can find it.
#ifndef LOCKSTEP_TESTS_FAULTS_PLANTED_FAULTS_H_
#define LOCKSTEP_TESTS_FAULTS_PLANTED_FAULTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/engine.h"

namespace lockstep {

enum class PlantedFault {
  // Forward.
  kSplitKSmallBatch,     // products of few rows add two halves of k
  kExtraRoundingDecode,  // attention of a decode row is rounded to bf16
  kStalePage,            // beside two other sequences, the last slot of a page is not written
  kLogProbOffByOne,      // beside other rows, the log-prob of the token next to the target
  kStaleWeight,          // products of few rows read the weights of the first version
  // Backward.
  kGradOrder,  // data in one call are reduced as one datum
  // Optimizer.
  kOptimizerSkipsTail,  // with more than one thread, a tensor's last elements stay
};

// "split_k_small_batch", "extra_rounding_decode", "stale_page", "log_prob_off_by_one",
// "stale_weight", "grad_order", "optimizer_skips_tail".
std::string_view Name(PlantedFault fault);
std::vector<PlantedFault> AllPlantedFaults();
// INVALID_ARGUMENT naming the text and what is known.
absl::StatusOr<PlantedFault> ParsePlantedFault(std::string_view name);

// Hooks that plant the fault in an engine.
EngineHooks Plant(PlantedFault fault);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_FAULTS_PLANTED_FAULTS_H_
