#include "tests/support/fake_engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/status_macros.h"

namespace lockstep {
namespace {

std::vector<std::vector<float>> TrainLogprobs(const std::vector<Datum>& data) {
  std::vector<std::vector<float>> logprobs;
  for (const Datum& datum : data) {
    logprobs.emplace_back(datum.model_input.size(), FakeEngine::kTrainLogprob);
    for (size_t i = 0; i < datum.mask.size(); ++i) {
      if (datum.mask[i] == 0) logprobs.back()[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return logprobs;
}

TrainMetrics MetricsOf(const std::vector<Datum>& data) {
  TrainMetrics metrics;
  for (const Datum& datum : data) metrics.token_count += datum.length();
  metrics.loss = 1.5;
  return metrics;
}

}  // namespace

struct FakeEngine::Running {
  GenerateRequest request;
  std::shared_ptr<GenerateObserver> observer;
  uint64_t seed = 0;
  WeightsState weights;
  int64_t made = 0;        // tokens of each sample; the loop's own
  bool cancelled = false;  // guarded by mu_
};

FakeEngine::FakeEngine()
    : limits_{.vocab_size = kVocabSize,
              .context_length_max = kContextLengthMax,
              .num_samples_max = 64,
              .data_max = 64} {
  thread_ = std::thread([this] { Loop(); });
}

FakeEngine::~FakeEngine() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
  for (const auto& [handle, running] : running_) {
    running->observer->OnDone(absl::UnavailableError("the engine stops"));
  }
}

void FakeEngine::HoldGeneration(bool hold) {
  MutexLock lock(mu_);
  hold_generation_ = hold;
  changed_.SignalAll();
}

void FakeEngine::HoldCalls(bool hold) {
  MutexLock lock(mu_);
  hold_calls_ = hold;
  changed_.SignalAll();
}

void FakeEngine::RefuseGenerate(absl::Status status) {
  MutexLock lock(mu_);
  refuse_generate_ = std::move(status);
}

void FakeEngine::set_parity_mismatches(int64_t mismatches) {
  MutexLock lock(mu_);
  parity_mismatches_ = mismatches;
}

void FakeEngine::WaitForRunning(int64_t count) {
  MutexLock lock(mu_);
  while (static_cast<int64_t>(running_.size()) != count) changed_.Wait(mu_);
}

int64_t FakeEngine::started_requests() const {
  MutexLock lock(mu_);
  return static_cast<int64_t>(next_handle_) - 1;
}

std::vector<absl::Status> FakeEngine::ended_requests() const {
  MutexLock lock(mu_);
  return ended_;
}

GenerateRequest FakeEngine::last_generate() const {
  MutexLock lock(mu_);
  return last_generate_;
}

uint64_t FakeEngine::applied_steps() const {
  MutexLock lock(mu_);
  return applied_steps_;
}

void FakeEngine::WaitForAppliedSteps(uint64_t count) {
  MutexLock lock(mu_);
  while (applied_steps_ < count) changed_.Wait(mu_);
}

absl::StatusOr<Engine::RequestHandle> FakeEngine::Generate(
    GenerateRequest request, std::shared_ptr<GenerateObserver> observer) {
  LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
  auto running = std::make_shared<Running>();
  running->seed = request.seed.value_or(kFreshSeed);
  running->weights = State();
  running->request = std::move(request);
  running->observer = std::move(observer);
  MutexLock lock(mu_);
  LOCKSTEP_RETURN_IF_ERROR(refuse_generate_);
  last_generate_ = running->request;
  running_[next_handle_] = std::move(running);
  changed_.SignalAll();
  return next_handle_++;
}

void FakeEngine::Cancel(RequestHandle handle) {
  MutexLock lock(mu_);
  const auto found = running_.find(handle);
  if (found == running_.end()) return;
  found->second->cancelled = true;
  changed_.SignalAll();
}

bool FakeEngine::HasWork() const {
  if (!hold_calls_ && !calls_.empty()) return true;
  if (!hold_generation_) return !running_.empty();
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& entry) { return entry.second->cancelled; });
}

void FakeEngine::Loop() {
  while (true) {
    std::function<void()> call;
    {
      MutexLock lock(mu_);
      while (!stopping_ && !HasWork()) changed_.Wait(mu_);
      if (stopping_) return;
      if (!hold_calls_ && !calls_.empty()) {
        call = std::move(calls_.front());
        calls_.pop_front();
      }
    }
    if (call) call();
    StepGeneration();
  }
}

// One token for each sample of each running request.
void FakeEngine::StepGeneration() {
  std::map<RequestHandle, std::shared_ptr<Running>> running;
  std::map<RequestHandle, bool> cancelled;
  bool hold;
  {
    MutexLock lock(mu_);
    running = running_;
    hold = hold_generation_;
    for (const auto& [handle, one] : running) cancelled[handle] = one->cancelled;
  }
  for (const auto& [handle, one] : running) {
    absl::Status status;
    if (cancelled[handle]) {
      status = absl::CancelledError("cancelled");
    } else if (hold) {
      continue;
    } else {
      if (one->made == 0) one->observer->OnStart({.seed_used = one->seed, .weights = one->weights});
      const int64_t i = one->made++;
      const bool is_last = one->made == one->request.max_tokens;
      std::vector<SampleDelta> deltas;
      for (int32_t sample = 0; sample < one->request.num_samples; ++sample) {
        deltas.push_back({.sample_index = sample,
                          .tokens = {Token(one->seed, sample, i)},
                          .logprobs = {Logprob(i)},
                          .raw_logprobs = {RawLogprob(i)},
                          .finish_reason = is_last ? FinishReason::kLength : FinishReason::kNone});
      }
      one->observer->OnDeltas(std::move(deltas));
      if (!is_last) continue;
    }
    one->observer->OnDone(status);
    MutexLock lock(mu_);
    running_.erase(handle);
    ended_.push_back(status);
    changed_.SignalAll();
  }
}

void FakeEngine::Enqueue(std::function<void()> call) {
  MutexLock lock(mu_);
  calls_.push_back(std::move(call));
  changed_.SignalAll();
}

WeightsState FakeEngine::State() const {
  MutexLock lock(mu_);
  WeightsState state;
  state.state_id.fill(static_cast<uint8_t>(200 + applied_steps_ % 50));
  state.weight_version = applied_steps_;
  state.numerics_id = "fake";
  return state;
}

uint64_t FakeEngine::ApplyStep() {
  MutexLock lock(mu_);
  changed_.SignalAll();
  return ++applied_steps_;
}

absl::Status FakeEngine::Score(ScoreRequest request, Callback<ScoreResult> done) {
  LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
  Enqueue([this, request = std::move(request), done = std::move(done)] {
    ScoreResult result{.scores = {}, .weights = State()};
    for (const ScoreSequence& sequence : request.sequences) {
      const std::vector<float> values(sequence.tokens.size(), kTrainLogprob);
      result.scores.push_back({.logprobs = values, .raw_logprobs = values, .entropies = values});
    }
    done(std::move(result));
  });
  return absl::OkStatus();
}

absl::Status FakeEngine::ForwardBackward(ForwardBackwardRequest request,
                                         Callback<ForwardBackwardResult> done) {
  LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
  Enqueue([this, request = std::move(request), done = std::move(done)] {
    done(ForwardBackwardResult{.logprobs = TrainLogprobs(request.data),
                               .metrics = MetricsOf(request.data),
                               .weights = State()});
  });
  return absl::OkStatus();
}

absl::Status FakeEngine::OptimStep(OptimStepRequest request, Callback<OptimStepResult> done) {
  LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
  Enqueue([this, done = std::move(done)] {
    ApplyStep();
    done(OptimStepResult{.metrics = {}, .weights = State()});
  });
  return absl::OkStatus();
}

absl::Status FakeEngine::TrainStep(TrainStepRequest request, Callback<TrainStepResult> done) {
  LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
  Enqueue([this, request = std::move(request), done = std::move(done)] {
    ApplyStep();
    done(TrainStepResult{.logprobs = TrainLogprobs(request.data),
                         .metrics = MetricsOf(request.data),
                         .optim = {},
                         .weights = State()});
  });
  return absl::OkStatus();
}

absl::Status FakeEngine::CheckParity(ParityRequest request, Callback<ParityResult> done) {
  LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
  Enqueue([this, request = std::move(request), done = std::move(done)] {
    ParityComparison comparison;
    comparison.name = "score";
    comparison.compared_tokens =
        int64_t{request.num_prompts} * request.num_samples * request.max_tokens;
    {
      MutexLock lock(mu_);
      comparison.mismatched_tokens = parity_mismatches_;
    }
    if (comparison.mismatched_tokens > 0) {
      comparison.first_mismatch = TokenMismatch{1, 2, 0xbf800000, 0xbf800001};
    }
    done(ParityResult{.comparisons = {comparison}, .weights = State(), .weights_digest = "d1"});
  });
  return absl::OkStatus();
}

absl::Status FakeEngine::ExportModel(std::string directory, Callback<ExportResult> done) {
  if (directory.empty()) return absl::InvalidArgumentError("directory: must not be empty");
  Enqueue([this, directory = std::move(directory), done = std::move(done)] {
    done(ExportResult{.path = "/exports/" + directory, .weights = State(), .bytes = 1234});
  });
  return absl::OkStatus();
}

EngineInfo FakeEngine::Info() const {
  EngineInfo info;
  info.model.architecture = "Fake";
  info.model.vocab_size = kVocabSize;
  info.model.context_length_max = kContextLengthMax;
  info.model.layer_count = 3;
  info.model.eos_token_ids = {2, 3};
  info.parameter_count = 12345;
  info.config.threads = 7;
  info.config.kv_page_count = 99;
  info.instruction_set = "reference";
  info.weights = State();
  info.weights_digest = "digest of weights";
  info.moments_digest = "digest of moments";
  MutexLock lock(mu_);
  info.running_sequences = static_cast<int64_t>(running_.size());
  info.kv_pages_in_use = static_cast<int64_t>(running_.size());
  return info;
}

}  // namespace lockstep
