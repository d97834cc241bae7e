// The engine's own paths, for parity: blocking calls on top of the loop.
#ifndef LOCKSTEP_CORE_ENGINE_ENGINE_PARITY_PATHS_H_
#define LOCKSTEP_CORE_ENGINE_ENGINE_PARITY_PATHS_H_

#include <atomic>
#include <vector>

#include "core/engine/engine_core.h"
#include "core/engine/loop.h"
#include "core/engine/parity_checker.h"

namespace lockstep {

class EngineParityPaths final : public ParityPaths {
 public:
  // All are borrowed. `next_job_id`: shared with the engine, so that ids stay unique.
  EngineParityPaths(EngineCore* core, Loop* loop, std::atomic<uint64_t>* next_job_id);

  absl::StatusOr<Pinned> Pin() override;
  void Unpin(const WeightsState& weights) override;
  absl::StatusOr<std::vector<Rollout>> Generate(const std::vector<GenerateRequest>& requests,
                                                int64_t chunk_max,
                                                const WeightsState& weights) override;
  absl::StatusOr<ScoreResult> Score(const ScoreRequest& request, int64_t chunk_max,
                                    const WeightsState& weights) override;
  absl::StatusOr<std::vector<std::vector<float>>> TrainingForward(
      const std::vector<Datum>& data, int64_t micro_batch_size,
      const WeightsState& weights) override;

 private:
  int64_t ChunkOr(int64_t chunk_max) const;

  EngineCore* const core_;
  Loop* const loop_;
  std::atomic<uint64_t>* const next_job_id_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_ENGINE_PARITY_PATHS_H_
