// The model of the quickstart, for those that see an engine but no models.
#ifndef LOCKSTEP_CORE_ENGINE_TINY_MODEL_H_
#define LOCKSTEP_CORE_ENGINE_TINY_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace lockstep {

// Writes an untrained byte-level Llama as a Hugging Face directory. The seed names its weights.
// Errors as core/model/init_model.h.
absl::Status WriteTinyModel(const std::string& directory, uint64_t seed);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_TINY_MODEL_H_
