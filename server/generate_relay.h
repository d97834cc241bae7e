// Carries one request's tokens from the engine to one gRPC stream, so that a slow reader never
// holds up the engine: while a message is being written, what the engine adds is merged into the
// next one. Memory is bounded by num_samples x max_tokens of the request.
#ifndef LOCKSTEP_SERVER_GENERATE_RELAY_H_
#define LOCKSTEP_SERVER_GENERATE_RELAY_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/request/generate_request.h"
#include "proto/lockstep/v1/generation.pb.h"

namespace lockstep {

// The stream, as the relay sees it. One write at a time.
class GenerateSink {
 public:
  virtual ~GenerateSink() = default;
  // `message` stays as it is until GenerateRelay::OnWriteDone.
  virtual void StartWrite(const v1::GenerateResponse& message) = 0;
  // Called exactly once, with no write under way; the relay touches the sink no more.
  virtual void Finish(const absl::Status& status) = 0;
};

// Thread safety: the engine calls the observer's methods, the sink calls OnWriteDone, from any
// threads. Lifetime: shared by both; the engine may hold it longer than the sink lives. `sink` must
// live until Finish has been called on it.
class GenerateRelay final : public GenerateObserver {
 public:
  GenerateRelay(std::string request_id, int64_t prompt_tokens, GenerateSink* sink);

  void OnStart(const GenerateHeader& header) override;
  void OnDeltas(std::vector<SampleDelta> deltas) override;
  void OnDone(const absl::Status& status) override;

  // The write that was under way has ended. Not ok: the reader is gone, and nothing more is
  // written.
  void OnWriteDone(bool ok);

 private:
  enum class Action { kNone, kWrite, kFinish };

  // Writes or finishes, if it is time.
  void Advance();
  Action ChooseAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string request_id_;
  const int64_t prompt_tokens_;
  GenerateSink* const sink_;

  // The message being written. Changed under mu_ while no write is under way.
  v1::GenerateResponse writing_message_;

  Mutex mu_;
  // What has come since the last write began, and where each sample's delta stands in it.
  v1::GenerateResponse pending_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int32_t, int> pending_delta_of_sample_ ABSL_GUARDED_BY(mu_);
  bool has_pending_ ABSL_GUARDED_BY(mu_) = false;
  int64_t generated_tokens_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool reader_gone_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_GENERATE_RELAY_H_
