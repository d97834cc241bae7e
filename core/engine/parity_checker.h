// CheckParity: samples rollouts, runs every other path over the same tokens under the same weights,
// and compares bits. A client of the engine like any other, on a thread of its own, so that
// requests and steps go on meanwhile.
//
// Thread safety: Post may be called from any thread.
#ifndef LOCKSTEP_CORE_ENGINE_PARITY_CHECKER_H_
#define LOCKSTEP_CORE_ENGINE_PARITY_CHECKER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bounded_queue.h"
#include "core/request/generate_request.h"
#include "core/request/parity_request.h"
#include "core/request/score_request.h"
#include "core/request/train_request.h"
#include "core/request/validate.h"

namespace lockstep {

// A finished sample: prompt and drawn tokens, and the log-probs that they were drawn with.
struct Rollout {
  std::vector<int32_t> tokens;
  int64_t prompt_length = 0;
  std::vector<float> logprobs;  // [tokens.size() - prompt_length]
};

// The paths that parity compares. All calls block, run under the weights that Pin returned, and
// report UNAVAILABLE when the engine goes down.
class ParityPaths {
 public:
  virtual ~ParityPaths() = default;

  struct Pinned {
    WeightsState weights;
    std::string weights_digest;
  };
  virtual absl::StatusOr<Pinned> Pin() = 0;
  virtual void Unpin(const WeightsState& weights) = 0;

  // One entry per sample of every request; requests run side by side. chunk_max: most positions of
  // a prefill chunk, 0 for the engine's own.
  virtual absl::StatusOr<std::vector<Rollout>> Generate(
      const std::vector<GenerateRequest>& requests, int64_t chunk_max,
      const WeightsState& weights) = 0;
  virtual absl::StatusOr<ScoreResult> Score(const ScoreRequest& request, int64_t chunk_max,
                                            const WeightsState& weights) = 0;
  virtual absl::StatusOr<std::vector<std::vector<float>>> TrainingForward(
      const std::vector<Datum>& data, int64_t micro_batch_size, const WeightsState& weights) = 0;
};

class ParityChecker {
 public:
  using Callback = std::function<void(absl::StatusOr<ParityResult>)>;

  // `limits`: of prompts drawn from a seed.
  ParityChecker(std::unique_ptr<ParityPaths> paths, const RequestLimits& limits);
  // Waits for the check under way; REQUIRES: the engine has gone down, so that it ends soon.
  ~ParityChecker();

  // RESOURCE_EXHAUSTED when kChecksMax wait already.
  absl::Status Post(ParityRequest request, Callback done);

  // Positions that the longest sequence of a check computes, for the caller to see that there are
  // KV pages for it. REQUIRES: a validated request.
  static int64_t PositionsMax(const ParityRequest& request, const RequestLimits& limits);

  static constexpr int kChecksMax = 16;

 private:
  struct Check {
    ParityRequest request;
    Callback done;
  };

  void Run();
  absl::StatusOr<ParityResult> Compare(const ParityRequest& request);
  absl::Status CompareAll(const ParityRequest& request, const WeightsState& weights,
                          ParityResult* result);
  std::vector<GenerateRequest> MakeRequests(const ParityRequest& request) const;

  const std::unique_ptr<ParityPaths> paths_;
  const RequestLimits limits_;

  BoundedQueue<Check> checks_;
  std::thread thread_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_PARITY_CHECKER_H_
