// A request as the batcher sees it: some sequences, the logits it wants of them, and what it does
// with the results. The two bodies are SampleJob (Generate) and ScoreJob.
//
// All members are called on the engine loop's thread.
#ifndef LOCKSTEP_CORE_GENERATE_JOB_H_
#define LOCKSTEP_CORE_GENERATE_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/generate/sequence.h"
#include "core/pipeline/step_plan.h"
#include "core/request/weights_state.h"

namespace lockstep {

class Job {
 public:
  virtual ~Job() = default;

  virtual absl::Time deadline() const { return absl::InfiniteFuture(); }

  virtual int64_t sequence_count() const = 0;
  // Sequence `index`, without pages. One with positions_max 0 is done when it is made.
  virtual Sequence MakeSequence(int64_t index) = 0;

  // Once, before any result: the weights that every sequence runs under.
  virtual void OnStart(const WeightsState& weights) = 0;

  // Positions [first, first + count) of `sequence` are in rows [row, row + count) of a batch:
  // appends the rows whose logits are wanted.
  virtual void WantLogits(const Sequence& sequence, int64_t first, int64_t count, int64_t row,
                          std::vector<LogitsRow>* wanted) const = 0;

  // What an error calls a sequence: "sample 3".
  virtual std::string NameOf(const Sequence& sequence) const = 0;

  // The results of the rows that WantLogits asked for, in that order; `first` as there. May extend
  // sequence.tokens and sequence.runnable. True when the sequence is finished. An error ends the
  // whole job.
  virtual absl::StatusOr<bool> OnResults(Sequence& sequence, int64_t first,
                                         absl::Span<const LogitsResult> results) = 0;
  // After all sequences of a micro-batch had their OnResults.
  virtual void OnStepEnd() = 0;

  // Exactly once, last. OK when every sequence finished.
  virtual void OnDone(const absl::Status& status) = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_GENERATE_JOB_H_
