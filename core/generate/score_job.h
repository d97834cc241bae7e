// A Score request: log-probs of given sequences, each a prefill with every position's logits.
#ifndef LOCKSTEP_CORE_GENERATE_SCORE_JOB_H_
#define LOCKSTEP_CORE_GENERATE_SCORE_JOB_H_

#include <functional>

#include "absl/status/statusor.h"
#include "core/generate/job.h"
#include "core/request/score_request.h"

namespace lockstep {

class ScoreJob final : public Job {
 public:
  using Callback = std::function<void(absl::StatusOr<ScoreResult>)>;

  // chunk_max: most positions of one sequence in a micro-batch.
  ScoreJob(ScoreRequest request, int64_t chunk_max, Callback done);

  int64_t sequence_count() const override {
    return static_cast<int64_t>(request_.sequences.size());
  }
  Sequence MakeSequence(int64_t index) override;
  void OnStart(const WeightsState& weights) override;
  void WantLogits(const Sequence& sequence, int64_t first, int64_t count, int64_t row,
                  std::vector<LogitsRow>* wanted) const override;
  std::string NameOf(const Sequence& sequence) const override;
  absl::StatusOr<bool> OnResults(Sequence& sequence, int64_t first,
                                 absl::Span<const LogitsResult> results) override;
  void OnStepEnd() override {}
  void OnDone(const absl::Status& status) override;

 private:
  const ScoreRequest request_;
  const int64_t chunk_max_;
  const Callback done_;

  ScoreResult result_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_GENERATE_SCORE_JOB_H_
