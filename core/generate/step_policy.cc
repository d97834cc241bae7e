#include "core/generate/step_policy.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {

std::vector<int64_t> PlanRows(absl::Span<const SequenceLoad> loads, int64_t tokens_max,
                              int64_t sequences_max) {
  LOCKSTEP_CHECK_GE(tokens_max, 1);
  LOCKSTEP_CHECK_GE(sequences_max, 1);
  // The longest waiting take part; whoever is left out waits longer than they by the next step.
  loads = loads.first(std::min<size_t>(loads.size(), sequences_max));
  const bool prefill_waits = std::any_of(
      loads.begin(), loads.end(), [](const SequenceLoad& load) { return load.remaining > 1; });

  std::vector<int64_t> rows(loads.size(), 0);
  if (tokens_max == 1) {
    if (!loads.empty()) rows.front() = 1;
    return rows;
  }
  int64_t left = tokens_max;
  const int64_t kept_for_prefill = prefill_waits ? 1 : 0;
  for (size_t i = 0; i < loads.size() && left > kept_for_prefill; ++i) {
    if (loads[i].remaining != 1) continue;
    rows[i] = 1;
    --left;
  }
  for (size_t i = 0; i < loads.size() && left > 0; ++i) {
    if (loads[i].remaining == 1) continue;
    rows[i] = std::min({loads[i].remaining, loads[i].chunk_max, left});
    left -= rows[i];
  }
  return rows;
}

}  // namespace lockstep
