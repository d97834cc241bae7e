#include "core/engine/engine_parity_paths.h"

#include <future>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "core/generate/sample_job.h"
#include "core/generate/score_job.h"

namespace lockstep {
namespace {

// Gathers the samples of one request; the promise is kept by OnDone.
class RolloutCollector final : public GenerateObserver {
 public:
  explicit RolloutCollector(const GenerateRequest& request) {
    Rollout empty;
    empty.tokens = request.prompt;
    empty.prompt_length = static_cast<int64_t>(request.prompt.size());
    rollouts_.assign(request.num_samples, empty);
  }

  std::future<absl::Status> done() { return done_.get_future(); }
  // After `done`.
  std::vector<Rollout>& rollouts() { return rollouts_; }

  void OnStart(const GenerateHeader&) override {}
  void OnDeltas(std::vector<SampleDelta> deltas) override {
    for (const SampleDelta& delta : deltas) {
      Rollout& rollout = rollouts_[delta.sample_index];
      rollout.tokens.insert(rollout.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      rollout.logprobs.insert(rollout.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    }
  }
  void OnDone(const absl::Status& status) override { done_.set_value(status); }

 private:
  std::vector<Rollout> rollouts_;
  std::promise<absl::Status> done_;
};

}  // namespace

EngineParityPaths::EngineParityPaths(EngineCore* core, Loop* loop,
                                     std::atomic<uint64_t>* next_job_id)
    : core_(core), loop_(loop), next_job_id_(next_job_id) {}

int64_t EngineParityPaths::ChunkOr(int64_t chunk_max) const {
  return chunk_max > 0 ? chunk_max : core_->prefill_chunk_max();
}

absl::StatusOr<ParityPaths::Pinned> EngineParityPaths::Pin() {
  std::promise<absl::StatusOr<Pinned>> pinned;
  loop_->PostControl([&](const absl::Status& status) {
    if (!status.ok()) return pinned.set_value(status);
    pinned.set_value(Pinned{core_->versions().Pin(), core_->trainer().weights_digest()});
  });
  return pinned.get_future().get();
}

void EngineParityPaths::Unpin(const WeightsState& weights) {
  std::promise<void> done;
  loop_->PostControl([&](const absl::Status& status) {
    if (status.ok()) core_->versions().Unpin(weights.weight_version);
    done.set_value();
  });
  done.get_future().wait();
}

absl::StatusOr<std::vector<Rollout>> EngineParityPaths::Generate(
    const std::vector<GenerateRequest>& requests, int64_t chunk_max, const WeightsState& weights) {
  std::vector<std::shared_ptr<RolloutCollector>> collectors;
  for (const GenerateRequest& request : requests) {
    collectors.push_back(std::make_shared<RolloutCollector>(request));
    loop_->PostControl([&, collector = collectors.back()](const absl::Status& status) {
      if (!status.ok()) return collector->OnDone(status);
      core_->batcher().Add(
          (*next_job_id_)++,
          std::make_unique<SampleJob>(request, *request.seed, core_->model().eos_token_ids,
                                      ChunkOr(chunk_max), collector),
          &weights);
    });
  }
  std::vector<Rollout> rollouts;
  absl::Status first_error;
  for (const std::shared_ptr<RolloutCollector>& collector : collectors) {
    first_error.Update(collector->done().get());
    for (Rollout& rollout : collector->rollouts()) rollouts.push_back(std::move(rollout));
  }
  LOCKSTEP_RETURN_IF_ERROR(first_error);
  return rollouts;
}

absl::StatusOr<ScoreResult> EngineParityPaths::Score(const ScoreRequest& request, int64_t chunk_max,
                                                     const WeightsState& weights) {
  std::promise<absl::StatusOr<ScoreResult>> result;
  loop_->PostControl([&](const absl::Status& status) {
    if (!status.ok()) return result.set_value(status);
    core_->batcher().Add((*next_job_id_)++,
                         std::make_unique<ScoreJob>(request, ChunkOr(chunk_max),
                                                    [&](absl::StatusOr<ScoreResult> scores) {
                                                      result.set_value(std::move(scores));
                                                    }),
                         &weights);
  });
  return result.get_future().get();
}

absl::StatusOr<std::vector<std::vector<float>>> EngineParityPaths::TrainingForward(
    const std::vector<Datum>& data, int64_t micro_batch_size, const WeightsState& weights) {
  std::promise<absl::StatusOr<std::vector<std::vector<float>>>> result;
  LOCKSTEP_RETURN_IF_ERROR(loop_->PostTraining([&](const absl::Status& status) {
    if (!status.ok()) return result.set_value(status);
    result.set_value(
        core_->trainer().TrainingForward(data, micro_batch_size, weights.weight_version));
  }));
  return result.get_future().get();
}

}  // namespace lockstep
