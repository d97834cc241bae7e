#include "core/train/run_ledger.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lockstep {

RunLedger::RunLedger(int64_t stored_answers_max) : stored_answers_max_(stored_answers_max) {
  LOCKSTEP_CHECK_GE(stored_answers_max, 1);
}

absl::StatusOr<const StoredAnswer*> RunLedger::Find(const CallId& call,
                                                    const Sha256Digest& fingerprint) {
  const auto run = runs_.find(call.run_id);
  const uint64_t last = run == runs_.end() ? 0 : run->second.last_seq_id;
  if (call.seq_id == last + 1) {
    if (run == runs_.end() && static_cast<int64_t>(runs_.size()) >= kRunsMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("run_id: ", kRunsMax, " runs are known already"));
    }
    return nullptr;
  }
  if (call.seq_id > last) {
    return absl::FailedPreconditionError(absl::StrCat(
        "seq_id: ", call.seq_id, " of run ", call.run_id, " leaves a gap, expected ", last + 1));
  }
  const auto entry = run->second.answers.find(call.seq_id);
  if (entry == run->second.answers.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("seq_id: ", call.seq_id, " of run ", call.run_id,
                     " was applied, and its answer is no longer kept; expected ", last + 1));
  }
  if (entry->second.fingerprint != fingerprint) {
    return absl::AlreadyExistsError(absl::StrCat("seq_id: ", call.seq_id, " of run ", call.run_id,
                                                 " was applied with another payload; expected ",
                                                 last + 1));
  }
  return &entry->second.answer;
}

void RunLedger::Record(const CallId& call, const Sha256Digest& fingerprint, StoredAnswer answer) {
  Run& run = runs_[call.run_id];
  LOCKSTEP_CHECK_EQ(call.seq_id, run.last_seq_id + 1);
  run.last_seq_id = call.seq_id;
  run.answers.emplace(call.seq_id, Entry{fingerprint, std::move(answer)});
  if (static_cast<int64_t>(run.answers.size()) > stored_answers_max_) {
    run.answers.erase(run.answers.begin());
  }
}

}  // namespace lockstep
