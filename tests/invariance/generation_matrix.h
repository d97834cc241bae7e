// The generation half of the bitwise matrix: fixed requests, the ways of serving them that must not
// show, and one run of them. The invariance tests compare runs; the tests of planted faults run the
// same comparison and want it red.
#ifndef LOCKSTEP_TESTS_INVARIANCE_GENERATION_MATRIX_H_
#define LOCKSTEP_TESTS_INVARIANCE_GENERATION_MATRIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "tests/invariance/bit_comparison.h"
#include "tests/support/engine_driver.h"

namespace lockstep {

// Layers of the tiny model, so that 2, 3 and 4 stages have uneven shares.
inline constexpr int64_t kMatrixLayers = 5;

// 1 stage, 1 thread, everything else as a server starts with; on the tiny model in `directory`.
EngineConfig BaselineConfig(const std::string& directory);

// Lengths of prompts from 1 to past a block of 128 keys; temperatures 0, 0.5, 0.7, 1 and 1.5;
// top-p, top-k and min-p off, alone and together.
std::vector<GenerateRequest> MatrixRequests();

struct GenerationRun {
  std::vector<Generated> generated;   // in the order of the requests, however they arrived
  std::vector<SequenceScore> scores;  // of every sample, at its temperature; greedy: at 1
};

// A way to serve the requests.
struct GenerationVariant {
  std::string name;
  EngineConfig config;  // without the model's directory
  enum class Arrival { kOneByOne, kTogether, kTogetherReversed, kTogetherRotated };
  Arrival arrival = Arrival::kTogether;
};
// The first is the baseline: each request alone.
std::vector<GenerationVariant> GenerationVariants(
    kernels::Profile profile = kernels::Profile::kFp32);

GenerationRun RunGeneration(EngineDriver& driver, GenerationVariant::Arrival arrival);
// On an engine of its own, on the model in `directory`.
GenerationRun RunGeneration(const GenerationVariant& variant, const std::string& directory,
                            const EngineHooks& hooks = {});

// Tokens, log-probs of both kinds, finish reasons and scores.
BitComparison Compare(const GenerationRun& actual, const GenerationRun& expected);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_INVARIANCE_GENERATION_MATRIX_H_
