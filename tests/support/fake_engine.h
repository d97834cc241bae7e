// An engine without a model, for tests of what stands before it. Answers follow from the request by
// the rules below, so that a test can say what must arrive. Requests are validated as by the real
// one, callbacks run on a thread of its own, and generation goes on in steps, all running requests
// together.
//
// Thread safety: all. Lifetime: destruction ends every request with UNAVAILABLE and joins.
#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_ENGINE_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"

namespace lockstep {

class FakeEngine final : public Engine {
 public:
  static constexpr int64_t kVocabSize = 1000;
  static constexpr int64_t kContextLengthMax = 100000;
  static constexpr uint64_t kFreshSeed = 77;  // for requests without one

  // Token i of a sample, and its log-probs.
  static int32_t Token(uint64_t seed, int32_t sample, int64_t i) {
    return static_cast<int32_t>((seed + 100 * static_cast<uint64_t>(sample) + i) % kVocabSize);
  }
  static float Logprob(int64_t i) { return -0.125f * static_cast<float>(i % 64 + 1); }
  static float RawLogprob(int64_t i) { return -0.25f * static_cast<float>(i % 64 + 1); }
  // Each target of a datum and each scored token.
  static constexpr float kTrainLogprob = -1.5f;

  FakeEngine();
  ~FakeEngine() override;

  // While held, running requests make no tokens; cancelling them works.
  void HoldGeneration(bool hold);
  // While held, training, score, parity and export calls wait.
  void HoldCalls(bool hold);
  // Every later Generate is refused like this; OK takes it back.
  void RefuseGenerate(absl::Status status);
  // What later CheckParity calls find.
  void set_parity_mismatches(int64_t mismatches);

  // Waits, without a limit of its own, until as many requests run.
  void WaitForRunning(int64_t count);
  int64_t started_requests() const;
  // How the requests that have ended did so, in that order.
  std::vector<absl::Status> ended_requests() const;
  GenerateRequest last_generate() const;
  // Optimizer steps that were applied: weight_version.
  uint64_t applied_steps() const;
  void WaitForAppliedSteps(uint64_t count);

  // Engine.
  absl::StatusOr<RequestHandle> Generate(GenerateRequest request,
                                         std::shared_ptr<GenerateObserver> observer) override;
  void Cancel(RequestHandle handle) override;
  absl::Status Score(ScoreRequest request, Callback<ScoreResult> done) override;
  absl::Status ForwardBackward(ForwardBackwardRequest request,
                               Callback<ForwardBackwardResult> done) override;
  absl::Status OptimStep(OptimStepRequest request, Callback<OptimStepResult> done) override;
  absl::Status TrainStep(TrainStepRequest request, Callback<TrainStepResult> done) override;
  absl::Status CheckParity(ParityRequest request, Callback<ParityResult> done) override;
  absl::Status ExportModel(std::string directory, Callback<ExportResult> done) override;
  EngineInfo Info() const override;
  const RequestLimits& limits() const override { return limits_; }

 private:
  struct Running;

  void Loop();
  // Whether the loop has something to do.
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StepGeneration();
  void Enqueue(std::function<void()> call);
  WeightsState State() const;
  uint64_t ApplyStep();

  const RequestLimits limits_;

  mutable Mutex mu_;
  mutable CondVar changed_;
  std::deque<std::function<void()>> calls_ ABSL_GUARDED_BY(mu_);
  std::map<RequestHandle, std::shared_ptr<Running>> running_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::Status> ended_ ABSL_GUARDED_BY(mu_);
  absl::Status refuse_generate_ ABSL_GUARDED_BY(mu_);
  GenerateRequest last_generate_ ABSL_GUARDED_BY(mu_);
  RequestHandle next_handle_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t applied_steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t parity_mismatches_ ABSL_GUARDED_BY(mu_) = 0;
  bool hold_generation_ ABSL_GUARDED_BY(mu_) = false;
  bool hold_calls_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: everything else is there when it starts
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_ENGINE_H_
