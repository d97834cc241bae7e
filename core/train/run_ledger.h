// Remembers which mutating calls of which run were applied, and their answers, so that a call that
// is sent again changes nothing. In memory so far.
//
// Belongs to the engine loop's thread. Not synchronised.
#ifndef LOCKSTEP_CORE_TRAIN_RUN_LEDGER_H_
#define LOCKSTEP_CORE_TRAIN_RUN_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "core/base/sha256.h"
#include "core/request/train_request.h"

namespace lockstep {

using StoredAnswer = std::variant<ForwardBackwardResult, OptimStepResult, TrainStepResult>;

class RunLedger {
 public:
  // Answers kept per run: a call older than that can no longer be answered again.
  explicit RunLedger(int64_t stored_answers_max);

  // `fingerprint`: of the call's kind and payload. Null: the call is new and in order, to be
  // applied. Otherwise the answer it got before. ALREADY_EXISTS: the id was used with another
  // payload. FAILED_PRECONDITION: a gap, naming the id expected; or an answer no longer kept.
  // RESOURCE_EXHAUSTED: kRunsMax runs are known.
  absl::StatusOr<const StoredAnswer*> Find(const CallId& call, const Sha256Digest& fingerprint);

  // The call was applied: it consumes its id. REQUIRES: Find gave null for it.
  void Record(const CallId& call, const Sha256Digest& fingerprint, StoredAnswer answer);

  static constexpr int64_t kRunsMax = 1024;

 private:
  struct Entry {
    Sha256Digest fingerprint;
    StoredAnswer answer;
  };
  struct Run {
    uint64_t last_seq_id = 0;
    std::map<uint64_t, Entry> answers;  // by seq_id, the last stored_answers_max
  };

  const int64_t stored_answers_max_;
  std::map<std::string, Run> runs_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_TRAIN_RUN_LEDGER_H_
