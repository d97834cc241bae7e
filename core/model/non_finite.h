#ifndef LOCKSTEP_CORE_MODEL_NON_FINITE_H_
#define LOCKSTEP_CORE_MODEL_NON_FINITE_H_

#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

// A part of the model, as an error names it.
struct ModelPlace {
  enum class Part { kEmbedding, kAttention, kMlp, kHead };
  Part part = Part::kHead;
  int64_t layer = 0;  // kAttention and kMlp: from 0, over the whole model
};

// "the embedding", "layer 3's attention", "layer 3's MLP", "the head".
std::string Name(const ModelPlace& place);

// Rows of a forward that stopped being finite numbers, and the first part of the model whose output
// was not. A row whose square sum overflows counts: a norm would make zeros of it.
using NonFiniteRows = std::map<int32_t, ModelPlace>;

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_NON_FINITE_H_
