#ifndef LOCKSTEP_CORE_MODEL_INIT_MODEL_H_
#define LOCKSTEP_CORE_MODEL_INIT_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/model/model_config.h"

namespace lockstep {

// The model of the quickstart: a Llama over bytes (ids 0 to 255, then BOS, EOS, PAD).
ModelConfig TinyByteLlama();

// Elements [0, size) of the tensor called for by `canonical_begin`, drawn from a normal
// distribution with the given standard deviation. A function of its arguments alone, with the same
// bits on every machine (Philox, and our own logarithm and cosine).
void FillNormal(uint64_t seed, int64_t canonical_begin, int64_t size, double deviation,
                float* values);

// Writes a Hugging Face directory with seeded random weights (a seed and a config name exact
// weights): norm weights 1, matrices normal with deviation 0.02, the projections that end a
// residual branch with 0.02 / sqrt(2 L) (Radford et al. 2019). A model of TinyByteLlama's
// vocabulary gets the tokenizer of bytes with it. Errors as WriteHfDirectory.
absl::Status InitModel(const std::string& directory, const ModelConfig& config, uint64_t seed);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_INIT_MODEL_H_
