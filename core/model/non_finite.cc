#include "core/model/non_finite.h"

#include "absl/strings/str_cat.h"

namespace lockstep {

std::string Name(const ModelPlace& place) {
  switch (place.part) {
    case ModelPlace::Part::kEmbedding:
      return "the embedding";
    case ModelPlace::Part::kAttention:
      return absl::StrCat("layer ", place.layer, "'s attention");
    case ModelPlace::Part::kMlp:
      return absl::StrCat("layer ", place.layer, "'s MLP");
    case ModelPlace::Part::kHead:
      return "the head";
  }
  return "";
}

}  // namespace lockstep
