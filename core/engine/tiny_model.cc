#include "core/engine/tiny_model.h"

#include "core/model/init_model.h"

namespace lockstep {

absl::Status WriteTinyModel(const std::string& directory, uint64_t seed) {
  return InitModel(directory, TinyByteLlama(), seed);
}

}  // namespace lockstep
