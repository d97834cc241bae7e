// One pipeline stage's share of the model, and everything a plan needs to run on it: compute
// weights by version, master weights and optimizer state, KV pages, scratch memory, and this
// rank's end of the pipeline's communication group.
//
// Owned by the stage's thread after construction. Not synchronised.
#ifndef LOCKSTEP_CORE_PIPELINE_STAGE_MODEL_H_
#define LOCKSTEP_CORE_PIPELINE_STAGE_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/comm/communicator.h"
#include "core/device/worker_set.h"
#include "core/model/forward.h"
#include "core/model/head.h"
#include "core/model/hf_directory.h"
#include "core/model/kv_arena.h"
#include "core/model/optimizer_state.h"
#include "core/model/rope_tables.h"
#include "core/model/sampler.h"
#include "core/model/stage_context.h"
#include "kernels/kernels.h"

namespace lockstep {

struct StageOptions {
  const ModelConfig* config = nullptr;  // borrowed, outlives the stage
  StageRange range;
  const kernels::Kernels* kernels = nullptr;  // borrowed, outlives the stage
  int thread_count = 1;
  int64_t kv_page_count = 0;
  int64_t kv_page_size = 0;
};

class StageModel {
 public:
  // Reads this stage's tensors and packs them as version 0.
  static absl::StatusOr<std::unique_ptr<StageModel>> Create(
      const StageOptions& options, const HfDirectory& directory,
      std::unique_ptr<Communicator> communicator);

  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  const ModelConfig& config() const { return *context_.config; }
  const StageContext& context() const { return context_; }
  const kernels::Kernels& kernels() const { return *context_.kernels; }
  kernels::Parallel& parallel() { return *workers_; }
  Communicator& communicator() { return *communicator_; }
  OptimizerState& optimizer() { return optimizer_; }
  KvArena& kv() { return kv_; }
  Head& head() { return *head_; }  // REQUIRES: last stage
  Sampler& sampler() { return sampler_; }
  Activations& scratch() { return scratch_; }

  // INTERNAL when the version was never made or has been released: a bug of the driver.
  absl::StatusOr<WeightView> Weights(uint64_t version) const;
  void MakeWeights(uint64_t version);
  void ReleaseWeights(uint64_t version);

  // The residual stream from the stage before (fresh memory on the first) and to the next.
  absl::StatusOr<Buffer<float>> ReceiveHidden(uint64_t tag, int64_t rows);
  absl::Status SendHidden(uint64_t tag, int64_t rows, Buffer<float> hidden);
  // Its gradient, in the other direction.
  absl::StatusOr<Buffer<float>> ReceiveHiddenGradient(uint64_t tag, int64_t rows);
  absl::Status SendHiddenGradient(uint64_t tag, int64_t rows, Buffer<float> gradient);

 private:
  StageModel(const StageOptions& options, std::unique_ptr<WorkerSet> workers,
             std::unique_ptr<Communicator> communicator);

  absl::StatusOr<Buffer<float>> ReceiveRows(int peer, uint64_t tag, int64_t rows);
  absl::Status SendRows(int peer, uint64_t tag, int64_t rows, Buffer<float> values);

  const std::unique_ptr<WorkerSet> workers_;
  const std::unique_ptr<Communicator> communicator_;
  const RopeTables rope_;
  const StageContext context_;

  OptimizerState optimizer_;
  std::map<uint64_t, std::shared_ptr<const StageWeights>> weights_;  // by version
  KvArena kv_;
  Activations scratch_;
  std::optional<Head> head_;  // last stage
  Sampler sampler_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_STAGE_MODEL_H_
