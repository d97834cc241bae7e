// A Generate request: num_samples independent continuations of one prompt.
#ifndef LOCKSTEP_CORE_GENERATE_SAMPLE_JOB_H_
#define LOCKSTEP_CORE_GENERATE_SAMPLE_JOB_H_

#include <memory>
#include <string>
#include <vector>

#include "core/generate/job.h"
#include "core/request/generate_request.h"

namespace lockstep {

class SampleJob final : public Job {
 public:
  // `eos_token_ids`: of the model; they stop a sample unless the request ignores them.
  SampleJob(GenerateRequest request, uint64_t seed, const std::vector<int32_t>& eos_token_ids,
            int64_t chunk_max, std::shared_ptr<GenerateObserver> observer);

  absl::Time deadline() const override { return request_.deadline; }
  int64_t sequence_count() const override { return request_.num_samples; }
  Sequence MakeSequence(int64_t index) override;
  void OnStart(const WeightsState& weights) override;
  void WantLogits(const Sequence& sequence, int64_t first, int64_t count, int64_t row,
                  std::vector<LogitsRow>* wanted) const override;
  std::string NameOf(const Sequence& sequence) const override;
  absl::StatusOr<bool> OnResults(Sequence& sequence, int64_t first,
                                 absl::Span<const LogitsResult> results) override;
  void OnStepEnd() override;
  void OnDone(const absl::Status& status) override;

 private:
  bool IsStop(int32_t token) const;

  const GenerateRequest request_;
  const uint64_t seed_;
  const int64_t chunk_max_;
  // Kept until OnDone has returned; shared because the stream that it writes to may end first.
  const std::shared_ptr<GenerateObserver> observer_;
  std::vector<int32_t> stop_tokens_;

  std::vector<SampleDelta> deltas_;  // of the step under way
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_GENERATE_SAMPLE_JOB_H_
