#include "tests/support/engine_driver.h"

#include <optional>
#include <utility>

#include "core/base/check.h"

namespace lockstep {
namespace {

// The answer of one call, handed from the engine's thread to the test's. Shared by both, since
// either may be the last to let go.
template <typename T>
class Answer {
 public:
  void Set(absl::StatusOr<T> value) {
    MutexLock lock(mu_);
    value_ = std::move(value);
    set_.SignalAll();
  }
  absl::StatusOr<T> Wait() {
    MutexLock lock(mu_);
    while (!value_.has_value()) set_.Wait(mu_);
    return *std::move(value_);
  }

 private:
  CondVar set_;
  Mutex mu_;
  std::optional<absl::StatusOr<T>> value_ ABSL_GUARDED_BY(mu_);
};

// Posts by `post(callback)` and waits.
template <typename T, typename Post>
absl::StatusOr<T> Call(Post post) {
  const auto answer = std::make_shared<Answer<T>>();
  const absl::Status posted =
      post([answer](absl::StatusOr<T> value) { answer->Set(std::move(value)); });
  if (!posted.ok()) return posted;
  return answer->Wait();
}

std::unique_ptr<Engine> MakeEngine(const EngineConfig& config, const EngineHooks& hooks) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(config, hooks);
  LOCKSTEP_CHECK(engine.ok()) << engine.status().ToString();
  return *std::move(engine);
}

}  // namespace

GenerateRecorder::GenerateRecorder(int32_t num_samples) { generated_.samples.resize(num_samples); }

void GenerateRecorder::OnStart(const GenerateHeader& header) {
  MutexLock lock(mu_);
  generated_.header = header;
  started_ = true;
  changed_.SignalAll();
}

void GenerateRecorder::OnDeltas(std::vector<SampleDelta> deltas) {
  MutexLock lock(mu_);
  for (const SampleDelta& delta : deltas) {
    GeneratedSample& sample = generated_.samples.at(delta.sample_index);
    sample.tokens.insert(sample.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    sample.logprobs.insert(sample.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    sample.raw_logprobs.insert(sample.raw_logprobs.end(), delta.raw_logprobs.begin(),
                               delta.raw_logprobs.end());
    sample.finish_reason = delta.finish_reason;
  }
}

void GenerateRecorder::OnDone(const absl::Status& status) {
  MutexLock lock(mu_);
  LOCKSTEP_CHECK(!done_) << "OnDone comes once";
  generated_.status = status;
  done_ = true;
  changed_.SignalAll();
}

void GenerateRecorder::WaitForStart() {
  MutexLock lock(mu_);
  while (!started_ && !done_) changed_.Wait(mu_);
}

Generated GenerateRecorder::Wait() {
  MutexLock lock(mu_);
  while (!done_) changed_.Wait(mu_);
  return generated_;
}

int64_t GenerateRecorder::token_count() const {
  MutexLock lock(mu_);
  int64_t count = 0;
  for (const GeneratedSample& sample : generated_.samples) {
    count += static_cast<int64_t>(sample.tokens.size());
  }
  return count;
}

EngineDriver::EngineDriver(const EngineConfig& config, const EngineHooks& hooks)
    : engine_(MakeEngine(config, hooks)) {}

std::shared_ptr<GenerateRecorder> EngineDriver::StartGenerate(const GenerateRequest& request) {
  auto recorder = std::make_shared<GenerateRecorder>(request.num_samples);
  const absl::Status posted = engine_->Generate(request, recorder).status();
  if (!posted.ok()) recorder->OnDone(posted);
  return recorder;
}

Generated EngineDriver::Generate(const GenerateRequest& request) {
  return StartGenerate(request)->Wait();
}

std::vector<Generated> EngineDriver::GenerateTogether(
    const std::vector<GenerateRequest>& requests) {
  std::vector<std::shared_ptr<GenerateRecorder>> recorders;
  HeldLoop held(*this);
  for (const GenerateRequest& request : requests) recorders.push_back(StartGenerate(request));
  held.Release();
  std::vector<Generated> generated;
  for (const auto& recorder : recorders) generated.push_back(recorder->Wait());
  return generated;
}

absl::StatusOr<ScoreResult> EngineDriver::Score(const ScoreRequest& request) {
  return Call<ScoreResult>([&](auto done) { return engine_->Score(request, done); });
}

absl::StatusOr<ForwardBackwardResult> EngineDriver::ForwardBackward(
    const ForwardBackwardRequest& request) {
  return Call<ForwardBackwardResult>(
      [&](auto done) { return engine_->ForwardBackward(request, done); });
}

absl::StatusOr<OptimStepResult> EngineDriver::OptimStep(const OptimStepRequest& request) {
  return Call<OptimStepResult>([&](auto done) { return engine_->OptimStep(request, done); });
}

absl::StatusOr<TrainStepResult> EngineDriver::TrainStep(const TrainStepRequest& request) {
  return Call<TrainStepResult>([&](auto done) { return engine_->TrainStep(request, done); });
}

absl::StatusOr<ParityResult> EngineDriver::CheckParity(const ParityRequest& request) {
  return Call<ParityResult>([&](auto done) { return engine_->CheckParity(request, done); });
}

absl::StatusOr<ExportResult> EngineDriver::ExportModel(const std::string& directory) {
  return Call<ExportResult>([&](auto done) { return engine_->ExportModel(directory, done); });
}

// Blocks the loop in OnStart until it is opened.
class HeldLoop::Gate final : public GenerateObserver {
 public:
  void OnStart(const GenerateHeader&) override {
    MutexLock lock(mu_);
    holding_ = true;
    changed_.SignalAll();
    while (!open_) changed_.Wait(mu_);
  }
  void OnDeltas(std::vector<SampleDelta>) override {}
  void OnDone(const absl::Status& status) override {
    LOCKSTEP_CHECK(status.ok()) << status.ToString();
  }

  void WaitUntilHolding() {
    MutexLock lock(mu_);
    while (!holding_) changed_.Wait(mu_);
  }
  void Open() {
    MutexLock lock(mu_);
    open_ = true;
    changed_.SignalAll();
  }

 private:
  CondVar changed_;
  Mutex mu_;
  bool holding_ ABSL_GUARDED_BY(mu_) = false;
  bool open_ ABSL_GUARDED_BY(mu_) = false;
};

HeldLoop::HeldLoop(EngineDriver& driver) : gate_(std::make_shared<Gate>()) {
  GenerateRequest request;
  request.prompt = {0};
  request.max_tokens = 1;
  const absl::Status posted = driver.engine().Generate(request, gate_).status();
  LOCKSTEP_CHECK(posted.ok()) << posted.ToString();
  gate_->WaitUntilHolding();
}

HeldLoop::~HeldLoop() { Release(); }

void HeldLoop::Release() { gate_->Open(); }

}  // namespace lockstep
