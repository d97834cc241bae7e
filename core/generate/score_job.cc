#include "core/generate/score_job.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {

ScoreJob::ScoreJob(ScoreRequest request, int64_t chunk_max, Callback done)
    : request_(std::move(request)), chunk_max_(chunk_max), done_(std::move(done)) {
  // Element 0 stays NaN: nothing comes before it.
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const ScoreSequence& sequence : request_.sequences) {
    const std::vector<float> unknown(sequence.tokens.size(), kNaN);
    result_.scores.push_back({unknown, unknown, unknown});
  }
}

Sequence ScoreJob::MakeSequence(int64_t index) {
  Sequence sequence;
  sequence.index = index;
  sequence.tokens = request_.sequences[index].tokens;
  // The last token is a target alone.
  sequence.positions_max = static_cast<int64_t>(sequence.tokens.size()) - 1;
  sequence.runnable = sequence.positions_max;
  sequence.chunk_max = chunk_max_;
  return sequence;
}

void ScoreJob::OnStart(const WeightsState& weights) { result_.weights = weights; }

void ScoreJob::WantLogits(const Sequence& sequence, int64_t first, int64_t count, int64_t row,
                          std::vector<LogitsRow>* wanted) const {
  for (int64_t i = 0; i < count; ++i) {
    LogitsRow& logits = wanted->emplace_back();
    logits.kind = LogitsRow::Kind::kScore;
    logits.row = static_cast<int32_t>(row + i);
    logits.sampling.temperature = request_.sequences[sequence.index].temperature;
    logits.target = sequence.tokens[first + i + 1];
  }
}

std::string ScoreJob::NameOf(const Sequence& sequence) const {
  return absl::StrCat("sequences[", sequence.index, "]");
}

absl::StatusOr<bool> ScoreJob::OnResults(Sequence& sequence, int64_t first,
                                         absl::Span<const LogitsResult> results) {
  SequenceScore& score = result_.scores[sequence.index];
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i) + 1;
    score.logprobs[position] = results[i].logprob;
    score.raw_logprobs[position] = results[i].raw_logprob;
    score.entropies[position] = results[i].entropy;
  }
  return first + static_cast<int64_t>(results.size()) == sequence.positions_max;
}

void ScoreJob::OnDone(const absl::Status& status) {
  if (status.ok()) {
    done_(std::move(result_));
  } else {
    done_(status);
  }
}

}  // namespace lockstep
