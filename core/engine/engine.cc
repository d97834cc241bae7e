#include "core/engine/engine.h"

#include <atomic>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_core.h"
#include "core/engine/engine_parity_paths.h"
#include "core/engine/loop.h"
#include "core/engine/parity_checker.h"
#include "core/generate/sample_job.h"
#include "core/generate/score_job.h"

namespace lockstep {
namespace {

uint64_t FreshSeed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(std::unique_ptr<EngineCore> core)
      : core_(std::move(core)),
        limits_(core_->limits()),
        loop_(std::make_unique<Loop>(core_.get())),
        parity_(std::make_unique<ParityChecker>(
            std::make_unique<EngineParityPaths>(core_.get(), loop_.get(), &next_job_id_),
            limits_)) {}

  ~EngineImpl() override {
    loop_->Stop();  // ends what the parity check waits for
    parity_.reset();
    loop_.reset();
  }

  absl::StatusOr<RequestHandle> Generate(GenerateRequest request,
                                         std::shared_ptr<GenerateObserver> observer) override {
    LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
    const int64_t positions = static_cast<int64_t>(request.prompt.size()) + request.max_tokens - 1;
    LOCKSTEP_RETURN_IF_ERROR(CheckPages(positions, "prompt_token_ids and max_tokens"));
    const RequestHandle id = next_job_id_++;
    const uint64_t seed = request.seed.has_value() ? *request.seed : FreshSeed();
    LOCKSTEP_RETURN_IF_ERROR(
        loop_->PostRequest([this, id, seed, request = std::move(request),
                            observer = std::move(observer)](const absl::Status& status) mutable {
          if (!status.ok()) return observer->OnDone(status);
          core_->batcher().Add(id, std::make_unique<SampleJob>(
                                       std::move(request), seed, core_->model().eos_token_ids,
                                       core_->prefill_chunk_max(), std::move(observer)));
        }));
    return id;
  }

  void Cancel(RequestHandle handle) override {
    loop_->PostControl([this, handle](const absl::Status& status) {
      if (status.ok())
        core_->batcher().End(handle, absl::CancelledError("cancelled by the client"));
    });
  }

  absl::Status Score(ScoreRequest request, Callback<ScoreResult> done) override {
    LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
    for (const ScoreSequence& sequence : request.sequences) {
      LOCKSTEP_RETURN_IF_ERROR(
          CheckPages(static_cast<int64_t>(sequence.tokens.size()) - 1, "sequences"));
    }
    const uint64_t id = next_job_id_++;
    return loop_->PostRequest([this, id, request = std::move(request),
                               done = std::move(done)](const absl::Status& status) mutable {
      if (!status.ok()) return done(status);
      core_->batcher().Add(
          id, std::make_unique<ScoreJob>(std::move(request), core_->prefill_chunk_max(),
                                         std::move(done)));
    });
  }

  absl::Status ForwardBackward(ForwardBackwardRequest request,
                               Callback<ForwardBackwardResult> done) override {
    LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
    return PostTraining(
        [this, request = std::move(request)] { return core_->trainer().ForwardBackward(request); },
        std::move(done));
  }

  absl::Status OptimStep(OptimStepRequest request, Callback<OptimStepResult> done) override {
    LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
    return PostTraining(
        [this, request = std::move(request)] { return core_->trainer().OptimStep(request); },
        std::move(done));
  }

  absl::Status TrainStep(TrainStepRequest request, Callback<TrainStepResult> done) override {
    LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
    return PostTraining(
        [this, request = std::move(request)] { return core_->trainer().TrainStep(request); },
        std::move(done));
  }

  absl::Status CheckParity(ParityRequest request, Callback<ParityResult> done) override {
    LOCKSTEP_RETURN_IF_ERROR(Validate(request, limits_));
    LOCKSTEP_RETURN_IF_ERROR(
        CheckPages(ParityChecker::PositionsMax(request, limits_), "prompts and max_tokens"));
    return parity_->Post(std::move(request), std::move(done));
  }

  absl::Status ExportModel(std::string directory, Callback<ExportResult> done) override {
    LOCKSTEP_RETURN_IF_ERROR(
        ResolveExportPath(core_->engine_config().export_root, directory).status());
    return PostTraining(
        [this, directory = std::move(directory)] { return core_->Export(directory); },
        std::move(done));
  }

  EngineInfo Info() const override {
    const LoopSnapshot snapshot = loop_->snapshot();
    EngineInfo info;
    info.model = core_->model();
    info.parameter_count = core_->parameter_count();
    info.config = core_->engine_config();
    info.memory = PlanMemory(core_->engine_config(), core_->model());
    info.instruction_set = std::string(core_->selected().kernels->name());
    info.instruction_set_note = core_->selected().note;
    info.weights = snapshot.weights;
    info.weights_digest = snapshot.weights_digest;
    info.moments_digest = snapshot.moments_digest;
    info.running_sequences = snapshot.running_sequences;
    info.queued_requests = snapshot.queued_requests;
    info.kv_pages_in_use = snapshot.kv_pages_in_use;
    info.kv_pages_total = core_->engine_config().kv_page_count;
    info.pinned_weight_versions = snapshot.pinned_weight_versions;
    return info;
  }

  const RequestLimits& limits() const override { return limits_; }

 private:
  // A sequence that could never be admitted is refused now.
  absl::Status CheckPages(int64_t positions, const char* field) const {
    const EngineConfig& config = core_->engine_config();
    const int64_t pages = Batcher::PagesFor(positions, config.kv_page_size);
    if (pages <= config.kv_page_count) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(field, ": need ", pages, " KV pages of ", config.kv_page_size,
                     " positions, kv_page_count is ", config.kv_page_count));
  }

  template <typename Call, typename T>
  absl::Status PostTraining(Call call, Callback<T> done) {
    return loop_->PostTraining(
        [this, call = std::move(call), done = std::move(done)](const absl::Status& status) {
          if (!status.ok()) return done(status);
          absl::StatusOr<T> result = call();
          loop_->UpdateSnapshot();  // a client that has the answer finds its weights in Info
          done(std::move(result));
        });
  }

  const std::unique_ptr<EngineCore> core_;
  const RequestLimits limits_;
  std::atomic<uint64_t> next_job_id_{1};
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ParityChecker> parity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineConfig& config,
                                                       const EngineHooks& hooks) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<EngineCore> core, EngineCore::Create(config, hooks));
  return std::make_unique<EngineImpl>(std::move(core));
}

}  // namespace lockstep
