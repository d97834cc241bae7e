// The known name that a misspelt one probably meant, for error messages.
#ifndef LOCKSTEP_SERVER_NEAREST_NAME_H_
#define LOCKSTEP_SERVER_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep {

// The closest of `known` by insertions, deletions and substitutions; empty when none is near enough
// to be worth a guess. The first one wins a tie.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_NEAREST_NAME_H_
