#include "core/generate/batcher.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/generate/step_policy.h"

namespace lockstep {

Batcher::Batcher(const BatcherLimits& limits, Pipeline* pipeline, WeightVersions* versions)
    : limits_(limits), pipeline_(pipeline), versions_(versions), pages_(limits.page_count) {}

int64_t Batcher::PagesFor(int64_t positions, int64_t page_size) {
  return (positions + page_size - 1) / page_size;
}

void Batcher::Add(JobId id, std::unique_ptr<Job> job, const WeightsState* pinned) {
  ActiveJob& active = jobs_[id];
  LOCKSTEP_CHECK(active.job == nullptr) << "job " << id << " is there already";
  active.job = std::move(job);
  if (pinned != nullptr) active.pinned_by_caller = *pinned;
  waiting_.push_back(id);
}

void Batcher::End(JobId id, const absl::Status& status) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.job == nullptr) return;
  std::exchange(found->second.job, nullptr)->OnDone(status);

  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), id), waiting_.end());
  std::deque<std::unique_ptr<Running>> others;
  for (std::unique_ptr<Running>& running : ready_) {
    if (running->job == id) {
      Release(std::move(running));
    } else {
      others.push_back(std::move(running));
    }
  }
  ready_ = std::move(others);
  ForgetIfOver(id);
}

void Batcher::EndAll(const absl::Status& status) {
  std::vector<JobId> ids;
  for (const auto& [id, active] : jobs_) ids.push_back(id);
  for (const JobId id : ids) End(id, status);
}

void Batcher::EndExpired(absl::Time now) {
  std::vector<JobId> expired;
  for (const auto& [id, active] : jobs_) {
    if (active.job != nullptr && active.job->deadline() <= now) expired.push_back(id);
  }
  for (const JobId id : expired) {
    End(id, absl::DeadlineExceededError("the request's deadline has passed"));
  }
}

absl::Status Batcher::Submit() {
  Admit();
  while (static_cast<int64_t>(in_flight_.size()) < pipeline_->stage_count()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool submitted, SubmitOne());
    if (!submitted) break;
  }
  return absl::OkStatus();
}

void Batcher::Admit() {
  while (!waiting_.empty()) {
    const JobId id = waiting_.front();
    ActiveJob& active = jobs_.at(id);
    const int64_t sequence_count = active.job->sequence_count();
    while (active.next_sequence < sequence_count && AdmitSequence(id, active)) {
    }
    if (active.next_sequence < sequence_count) return;
    waiting_.pop_front();
    if (active.live_sequences == 0) End(id, absl::OkStatus());  // nothing had to be computed
  }
}

bool Batcher::AdmitSequence(JobId id, ActiveJob& active) {
  if (running_ >= limits_.running_sequences_max) return false;
  auto running = std::make_unique<Running>();
  running->job = id;
  running->sequence = active.job->MakeSequence(active.next_sequence);
  Sequence& sequence = running->sequence;
  std::optional<std::vector<int32_t>> pages =
      pages_.Allocate(PagesFor(sequence.positions_max, limits_.page_size));
  if (!pages.has_value()) return false;

  sequence.pages = *std::move(pages);
  ++active.next_sequence;
  if (!active.started) Start(active);
  if (sequence.positions_max == 0) return true;
  ++active.live_sequences;
  ++running_;
  ready_.push_back(std::move(running));
  return true;
}

void Batcher::Start(ActiveJob& active) {
  active.started = true;
  active.weights =
      active.pinned_by_caller.has_value() ? *active.pinned_by_caller : versions_->Pin();
  active.job->OnStart(active.weights);
}

absl::StatusOr<bool> Batcher::SubmitOne() {
  if (ready_.empty()) return false;
  const auto version_of = [this](const Running& running) {
    return jobs_.at(running.job).weights.weight_version;
  };
  const uint64_t version = version_of(*ready_.front());
  std::deque<std::unique_ptr<Running>> candidates;
  std::deque<std::unique_ptr<Running>> rest;
  std::vector<SequenceLoad> loads;
  for (std::unique_ptr<Running>& running : ready_) {
    if (version_of(*running) == version) {
      const Sequence& sequence = running->sequence;
      loads.push_back({sequence.runnable - sequence.computed, sequence.chunk_max});
      candidates.push_back(std::move(running));
    } else {
      rest.push_back(std::move(running));
    }
  }

  // Each micro-batch takes its share of what runs, so that every stage has one to work on.
  const int64_t stages = pipeline_->stage_count();
  const std::vector<int64_t> rows =
      PlanRows(loads, limits_.step_tokens_max, (running_ + stages - 1) / stages);
  InferencePlan plan;
  plan.weight_version = version;
  std::vector<Share> shares;
  std::deque<std::unique_ptr<Running>> left_out;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i < rows.size() && rows[i] > 0) {
      AddShare(std::move(candidates[i]), rows[i], &plan, &shares);
    } else {
      left_out.push_back(std::move(candidates[i]));
    }
  }
  // Another version's sequences come first next time, whoever was left out keeps its place.
  ready_ = std::move(rest);
  for (std::unique_ptr<Running>& running : left_out) ready_.push_back(std::move(running));

  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t id, pipeline_->Submit(std::move(plan)));
  in_flight_[id] = std::move(shares);
  return true;
}

void Batcher::AddShare(std::unique_ptr<Running> running, int64_t count, InferencePlan* plan,
                       std::vector<Share>* shares) {
  const Sequence& sequence = running->sequence;
  const int64_t row = plan->batch.row_count();
  plan->batch.Append(sequence.tokens.data() + sequence.computed, count, sequence.computed,
                     sequence.pages);

  Share share;
  share.row = row;
  share.first = sequence.computed;
  share.count = count;
  share.results_begin = static_cast<int64_t>(plan->logits_rows.size());
  jobs_.at(running->job)
      .job->WantLogits(sequence, sequence.computed, count, row, &plan->logits_rows);
  share.results_count = static_cast<int64_t>(plan->logits_rows.size()) - share.results_begin;
  share.running = std::move(running);
  shares->push_back(std::move(share));
}

absl::Status Batcher::Collect() {
  LOCKSTEP_ASSIGN_OR_RETURN(const FinishedInference finished, pipeline_->NextInference());
  const auto found = in_flight_.find(finished.id);
  LOCKSTEP_CHECK(found != in_flight_.end()) << "plan " << finished.id;
  std::vector<Share> shares = std::move(found->second);
  in_flight_.erase(found);

  std::set<JobId> touched;
  std::map<JobId, absl::Status> ended;
  for (Share& share : shares) {
    const JobId id = share.running->job;
    touched.insert(id);
    const absl::Span<const LogitsResult> results =
        absl::MakeConstSpan(finished.results).subspan(share.results_begin, share.results_count);
    const absl::Status status = TakeResults(std::move(share), results, finished.non_finite);
    if (!status.ok()) {
      ended.emplace(id, status);
    }
  }
  for (const JobId id : touched) {
    const ActiveJob& active = jobs_.at(id);
    if (active.job == nullptr) {  // ended while the micro-batch was in flight
      ForgetIfOver(id);
      continue;
    }
    active.job->OnStepEnd();
    const bool over =
        active.live_sequences == 0 && active.next_sequence == active.job->sequence_count();
    if (ended.count(id) > 0) {
      End(id, ended.at(id));
    } else if (over) {
      End(id, absl::OkStatus());
    }
  }
  return absl::OkStatus();
}

absl::Status Batcher::TakeResults(Share share, absl::Span<const LogitsResult> results,
                                  const NonFiniteRows& non_finite) {
  ActiveJob& active = jobs_.at(share.running->job);
  if (active.job == nullptr) {
    Release(std::move(share.running));
    return absl::OkStatus();
  }
  Sequence& sequence = share.running->sequence;
  sequence.computed += share.count;
  // Also a row whose logits nobody wants: what follows it attends to it.
  const auto bad = non_finite.lower_bound(static_cast<int32_t>(share.row));
  if (bad != non_finite.end() && bad->first < share.row + share.count) {
    const absl::Status status = absl::InternalError(absl::StrCat(
        active.job->NameOf(sequence), ": position ", share.first + bad->first - share.row,
        " is not finite from ", Name(bad->second), " on"));
    Release(std::move(share.running));
    return status;
  }
  const absl::StatusOr<bool> finished = active.job->OnResults(sequence, share.first, results);
  if (!finished.ok() || *finished) {
    Release(std::move(share.running));
    return finished.status();
  }
  ready_.push_back(std::move(share.running));
  return absl::OkStatus();
}

void Batcher::Release(std::unique_ptr<Running> running) {
  pages_.Free(running->sequence.pages);
  --jobs_.at(running->job).live_sequences;
  --running_;
}

void Batcher::ForgetIfOver(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const ActiveJob& active = found->second;
  if (active.job != nullptr || active.live_sequences > 0) return;
  if (active.started && !active.pinned_by_caller.has_value()) {
    versions_->Unpin(active.weights.weight_version);
  }
  jobs_.erase(found);
}

}  // namespace lockstep
