// The training half of the bitwise matrix: ten fixed steps, the ways of running them that must not
// show, and one run of them. The invariance tests compare runs; the tests of planted faults run the
// same comparison and want it red.
#ifndef LOCKSTEP_TESTS_INVARIANCE_TRAINING_MATRIX_H_
#define LOCKSTEP_TESTS_INVARIANCE_TRAINING_MATRIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "tests/invariance/bit_comparison.h"
#include "tests/support/engine_driver.h"

namespace lockstep {

// Step `step` of the script: data of ragged lengths, 1 token and more than two token chunks among
// them, masks, weights of both signs and temperatures. Steps alternate between cross_entropy and
// ppo, token-sum and token-mean, clipped and not.
TrainStepRequest ScriptedStep(int step);

// What a step leaves behind.
struct StepTrace {
  std::vector<std::vector<float>> logprobs;
  std::vector<TrainMetrics> metrics;  // one per call
  OptimMetrics optim;
  WeightsState weights;
  std::string weights_digest;
  std::string moments_digest;
};

// A way to run the steps.
struct TrainingVariant {
  std::string name;
  EngineConfig config;  // without the model's directory
  int32_t micro_batch_size = 0;
  int64_t data_per_call = 0;  // 0: TrainStep; otherwise ForwardBackward calls and an OptimStep
};
// The first is the baseline: all data of a step in one micro-batch.
std::vector<TrainingVariant> TrainingVariants(kernels::Profile profile = kernels::Profile::kFp32);

std::vector<StepTrace> RunTraining(EngineDriver& driver, const TrainingVariant& variant,
                                   int step_count);
// On an engine of its own, on the model in `directory`.
std::vector<StepTrace> RunTraining(const TrainingVariant& variant, int step_count,
                                   const std::string& directory, const EngineHooks& hooks = {});

// Log-probs, gradient norm, digests of weights and moments, state; the metrics too where both runs
// made as many calls, for a call's metrics are about its own data.
BitComparison Compare(const std::vector<StepTrace>& actual, const std::vector<StepTrace>& expected);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_INVARIANCE_TRAINING_MATRIX_H_
