#include "server/generate_relay.h"

#include <utility>

#include "core/base/check.h"
#include "server/translate.h"

namespace lockstep {

GenerateRelay::GenerateRelay(std::string request_id, int64_t prompt_tokens, GenerateSink* sink)
    : request_id_(std::move(request_id)), prompt_tokens_(prompt_tokens), sink_(sink) {}

void GenerateRelay::OnStart(const GenerateHeader& header) {
  // Goes out with the first tokens.
  MutexLock lock(mu_);
  translate::ToProto(header, *pending_.mutable_header());
}

void GenerateRelay::OnDeltas(std::vector<SampleDelta> deltas) {
  {
    MutexLock lock(mu_);
    for (const SampleDelta& delta : deltas) {
      const auto [place, is_new] =
          pending_delta_of_sample_.try_emplace(delta.sample_index, pending_.deltas_size());
      if (is_new) pending_.add_deltas();
      translate::AppendToProto(delta, *pending_.mutable_deltas(place->second));
      generated_tokens_ += static_cast<int64_t>(delta.tokens.size());
    }
    has_pending_ = true;
  }
  Advance();
}

void GenerateRelay::OnDone(const absl::Status& status) {
  {
    MutexLock lock(mu_);
    LOCKSTEP_CHECK(!final_status_.has_value()) << "a request ends once";
    final_status_ = status;
    if (status.ok()) {
      pending_.mutable_done()->set_prompt_tokens(prompt_tokens_);
      pending_.mutable_done()->set_generated_tokens(generated_tokens_);
      has_pending_ = true;
    }
  }
  Advance();
}

void GenerateRelay::OnWriteDone(bool ok) {
  {
    MutexLock lock(mu_);
    is_writing_ = false;
    if (!ok) reader_gone_ = true;
  }
  Advance();
}

void GenerateRelay::Advance() {
  Action action;
  absl::Status final_status;
  {
    MutexLock lock(mu_);
    action = ChooseAction();
    if (action == Action::kFinish) final_status = *final_status_;
  }
  // Outside the lock: the choice is made once, so nobody else writes or finishes meanwhile.
  if (action == Action::kWrite) sink_->StartWrite(writing_message_);
  if (action == Action::kFinish) sink_->Finish(final_status);
}

GenerateRelay::Action GenerateRelay::ChooseAction() {
  if (is_writing_ || finished_) return Action::kNone;
  if (has_pending_ && !reader_gone_) {
    pending_.set_request_id(request_id_);
    writing_message_.Swap(&pending_);
    pending_.Clear();
    pending_delta_of_sample_.clear();
    has_pending_ = false;
    is_writing_ = true;
    return Action::kWrite;
  }
  if (!final_status_.has_value()) return Action::kNone;
  finished_ = true;
  return Action::kFinish;
}

}  // namespace lockstep
