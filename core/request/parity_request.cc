#include "core/request/parity_request.h"

namespace lockstep {

bool ParityResult::passed() const {
  // Zero of zero is not green, and neither is a path that compared nothing.
  if (comparisons.empty()) return false;
  for (const ParityComparison& comparison : comparisons) {
    if (comparison.compared_tokens == 0 || comparison.mismatched_tokens != 0) return false;
  }
  return true;
}

}  // namespace lockstep
