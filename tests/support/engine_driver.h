// Blocking calls over an Engine, for tests: what a client gets from the server, without a server.
//
// Thread safety: as Engine; every call may come from any thread.
#ifndef LOCKSTEP_TESTS_SUPPORT_ENGINE_DRIVER_H_
#define LOCKSTEP_TESTS_SUPPORT_ENGINE_DRIVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"

namespace lockstep {

struct GeneratedSample {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<float> raw_logprobs;
  FinishReason finish_reason = FinishReason::kNone;
};

// All that a generate request came to.
struct Generated {
  absl::Status status;
  GenerateHeader header;
  std::vector<GeneratedSample> samples;
};

// Keeps what it is told.
class GenerateRecorder final : public GenerateObserver {
 public:
  explicit GenerateRecorder(int32_t num_samples);

  void OnStart(const GenerateHeader& header) override;
  void OnDeltas(std::vector<SampleDelta> deltas) override;
  void OnDone(const absl::Status& status) override;

  // Waits until the request has been admitted or has ended.
  void WaitForStart();
  // Waits for the end.
  Generated Wait();
  // Tokens so far, over all samples.
  int64_t token_count() const;

 private:
  CondVar changed_;
  mutable Mutex mu_;
  Generated generated_ ABSL_GUARDED_BY(mu_);
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
};

class EngineDriver {
 public:
  // The engine has to start; a test whose engine does not ends here.
  explicit EngineDriver(const EngineConfig& config, const EngineHooks& hooks = {});

  // Queued, not waited for.
  std::shared_ptr<GenerateRecorder> StartGenerate(const GenerateRequest& request);
  Generated Generate(const GenerateRequest& request);
  // The engine looks at none before all have arrived, in this order: they are admitted side by
  // side as far as its limits go.
  std::vector<Generated> GenerateTogether(const std::vector<GenerateRequest>& requests);

  absl::StatusOr<ScoreResult> Score(const ScoreRequest& request);
  absl::StatusOr<ForwardBackwardResult> ForwardBackward(const ForwardBackwardRequest& request);
  absl::StatusOr<OptimStepResult> OptimStep(const OptimStepRequest& request);
  absl::StatusOr<TrainStepResult> TrainStep(const TrainStepRequest& request);
  absl::StatusOr<ParityResult> CheckParity(const ParityRequest& request);
  absl::StatusOr<ExportResult> ExportModel(const std::string& directory);

  Engine& engine() { return *engine_; }

 private:
  const std::unique_ptr<Engine> engine_;
};

// Holds an engine's loop still, by a request whose observer blocks, from construction to Release.
// What is queued meanwhile is all there when the loop goes on.
class HeldLoop {
 public:
  explicit HeldLoop(EngineDriver& driver);
  ~HeldLoop();

  void Release();

 private:
  class Gate;
  const std::shared_ptr<Gate> gate_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_ENGINE_DRIVER_H_
