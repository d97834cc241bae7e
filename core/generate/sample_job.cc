#include "core/generate/sample_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lockstep {

SampleJob::SampleJob(GenerateRequest request, uint64_t seed,
                     const std::vector<int32_t>& eos_token_ids, int64_t chunk_max,
                     std::shared_ptr<GenerateObserver> observer)
    : request_(std::move(request)),
      seed_(seed),
      chunk_max_(chunk_max),
      observer_(std::move(observer)),
      stop_tokens_(request_.stop_token_ids) {
  if (!request_.ignore_eos) {
    stop_tokens_.insert(stop_tokens_.end(), eos_token_ids.begin(), eos_token_ids.end());
  }
}

Sequence SampleJob::MakeSequence(int64_t index) {
  Sequence sequence;
  sequence.index = index;
  sequence.tokens = request_.prompt;
  sequence.runnable = static_cast<int64_t>(sequence.tokens.size());
  // The last token drawn is never computed.
  sequence.positions_max = sequence.runnable + request_.max_tokens - 1;
  sequence.chunk_max = chunk_max_;
  return sequence;
}

void SampleJob::OnStart(const WeightsState& weights) { observer_->OnStart({seed_, weights}); }

void SampleJob::WantLogits(const Sequence& sequence, int64_t first, int64_t count, int64_t row,
                           std::vector<LogitsRow>* wanted) const {
  const int64_t known = static_cast<int64_t>(sequence.tokens.size());
  if (first + count != known) return;  // a chunk in the middle of the prompt
  LogitsRow last;
  last.kind = LogitsRow::Kind::kSample;
  last.row = static_cast<int32_t>(row + count - 1);
  last.sampling = request_.sampling;
  last.draw = {seed_, static_cast<uint64_t>(sequence.index), static_cast<uint64_t>(known)};
  wanted->push_back(last);
}

std::string SampleJob::NameOf(const Sequence& sequence) const {
  return absl::StrCat("sample ", sequence.index);
}

absl::StatusOr<bool> SampleJob::OnResults(Sequence& sequence, int64_t first,
                                          absl::Span<const LogitsResult> results) {
  (void)first;
  if (results.empty()) return false;
  LOCKSTEP_CHECK_EQ(results.size(), size_t{1});
  const LogitsResult& result = results.front();
  sequence.tokens.push_back(result.token);
  sequence.runnable = static_cast<int64_t>(sequence.tokens.size());

  SampleDelta& delta = deltas_.emplace_back();
  delta.sample_index = static_cast<int32_t>(sequence.index);
  delta.tokens = {result.token};
  delta.logprobs = {result.logprob};
  delta.raw_logprobs = {result.raw_logprob};
  const size_t drawn = sequence.tokens.size() - request_.prompt.size();
  if (IsStop(result.token)) {
    delta.finish_reason = FinishReason::kStop;
    delta.stop_token = result.token;
  } else if (drawn == static_cast<size_t>(request_.max_tokens)) {
    delta.finish_reason = FinishReason::kLength;
  }
  return delta.finish_reason != FinishReason::kNone;
}

void SampleJob::OnStepEnd() {
  if (deltas_.empty()) return;
  observer_->OnDeltas(std::exchange(deltas_, {}));
}

void SampleJob::OnDone(const absl::Status& status) { observer_->OnDone(status); }

bool SampleJob::IsStop(int32_t token) const {
  return std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
}

}  // namespace lockstep
