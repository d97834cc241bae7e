// Continuous batching: admits jobs in order of arrival, takes KV pages and a weights pin for them,
// and cuts what they want computed into micro-batches for the pipeline. Sequences of all jobs,
// prefill chunks and decode rows share micro-batches; weight versions do not.
//
// A sequence is admitted with pages for all it may ever compute, so nothing that runs can run out
// of memory. The first in line waits until there is room: nobody overtakes it.
//
// Belongs to the engine loop's thread. Not synchronised.
#ifndef LOCKSTEP_CORE_GENERATE_BATCHER_H_
#define LOCKSTEP_CORE_GENERATE_BATCHER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/generate/job.h"
#include "core/generate/page_allocator.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/weight_versions.h"

namespace lockstep {

struct BatcherLimits {
  int64_t running_sequences_max = 64;
  int64_t step_tokens_max = 512;
  int64_t page_size = 16;
  int64_t page_count = 0;
};

class Batcher {
 public:
  using JobId = uint64_t;

  // Both are borrowed.
  Batcher(const BatcherLimits& limits, Pipeline* pipeline, WeightVersions* versions);

  // `id` is new. `pinned_version`: run under that version, which the caller keeps pinned meanwhile;
  // otherwise the job pins what is current when it is admitted.
  void Add(JobId id, std::unique_ptr<Job> job, const WeightsState* pinned = nullptr);
  // Ends a job with `status`; what it holds is freed, at the latest when its micro-batch in flight
  // is back. A no-op when the job is gone.
  void End(JobId id, const absl::Status& status);
  void EndAll(const absl::Status& status);
  // Ends jobs whose deadline has passed with DEADLINE_EXCEEDED.
  void EndExpired(absl::Time now);

  // Admits jobs and submits micro-batches until as many are in flight as there are stages.
  absl::Status Submit();
  // Waits for one micro-batch and hands out its results. REQUIRES: one is in flight.
  absl::Status Collect();

  bool idle() const { return jobs_.empty() && in_flight_.empty(); }
  bool in_flight() const { return !in_flight_.empty(); }
  int64_t running_sequences() const { return running_; }
  int64_t waiting_jobs() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t pages_in_use() const { return pages_.in_use(); }

  // Pages that a sequence of `positions` computed positions takes.
  static int64_t PagesFor(int64_t positions, int64_t page_size);

 private:
  struct ActiveJob {
    std::unique_ptr<Job> job;  // null once it has been told its end
    WeightsState weights;
    std::optional<WeightsState> pinned_by_caller;
    bool started = false;
    int64_t next_sequence = 0;   // first that is not admitted
    int64_t live_sequences = 0;  // admitted and not released
  };
  struct Running {
    JobId job = 0;
    Sequence sequence;
  };
  // A sequence's share of a micro-batch in flight.
  struct Share {
    std::unique_ptr<Running> running;
    int64_t row = 0;    // of the micro-batch
    int64_t first = 0;  // position of that row
    int64_t count = 0;
    int64_t results_begin = 0;
    int64_t results_count = 0;
  };

  // Admits from the front of the line while there is room.
  void Admit();
  // Starts the next sequence of a job; false when there is no room.
  bool AdmitSequence(JobId id, ActiveJob& active);
  void Start(ActiveJob& active);
  // One micro-batch of what waits longest; false when nothing does.
  absl::StatusOr<bool> SubmitOne();
  void AddShare(std::unique_ptr<Running> running, int64_t count, InferencePlan* plan,
                std::vector<Share>* shares);
  // Hands a share's results to its job; the error ends the job. A row of it in `non_finite` is one.
  absl::Status TakeResults(Share share, absl::Span<const LogitsResult> results,
                           const NonFiniteRows& non_finite);
  // A sequence is over: its pages go back.
  void Release(std::unique_ptr<Running> running);
  // Drops a job that has been told its end, once nothing of it is in flight.
  void ForgetIfOver(JobId id);

  const BatcherLimits limits_;
  Pipeline* const pipeline_;
  WeightVersions* const versions_;

  PageAllocator pages_;
  std::map<JobId, ActiveJob> jobs_;
  std::deque<JobId> waiting_;                         // jobs with sequences to admit
  std::deque<std::unique_ptr<Running>> ready_;        // longest waiting first
  std::map<uint64_t, std::vector<Share>> in_flight_;  // by plan id
  int64_t running_ = 0;                               // admitted sequences
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_GENERATE_BATCHER_H_
