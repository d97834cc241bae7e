// Everything that an engine's loop works on, loaded and wired: kernels, pipeline, weight versions,
// batcher, trainer. Built on the caller's thread, from then on touched by the loop's alone.
#ifndef LOCKSTEP_CORE_ENGINE_ENGINE_CORE_H_
#define LOCKSTEP_CORE_ENGINE_ENGINE_CORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "core/generate/batcher.h"
#include "core/model/hf_directory.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/weight_versions.h"
#include "core/train/trainer.h"
#include "kernels/select.h"

namespace lockstep {

class EngineCore {
 public:
  static absl::StatusOr<std::unique_ptr<EngineCore>> Create(const EngineConfig& config,
                                                            const EngineHooks& hooks);

  // Constant after construction.
  const EngineConfig& engine_config() const { return engine_config_; }
  const ModelConfig& model() const { return model_; }
  int64_t parameter_count() const { return parameter_count_; }
  const kernels::SelectedKernels& selected() const { return selected_; }
  RequestLimits limits() const;
  // Longest prefill chunk where a request asks for no other.
  int64_t prefill_chunk_max() const { return engine_config_.prefill_chunk_max; }

  Pipeline& pipeline() { return *pipeline_; }
  WeightVersions& versions() { return *versions_; }
  Batcher& batcher() { return *batcher_; }
  Trainer& trainer() { return *trainer_; }
  const Clock& clock() const { return clock_; }

  // Writes the masters as they are below the export root. `directory` as in Engine::ExportModel.
  absl::StatusOr<ExportResult> Export(const std::string& directory);

 private:
  EngineCore(const EngineConfig& config, const ModelConfig& model,
             kernels::SelectedKernels selected);

  const EngineConfig engine_config_;
  const ModelConfig model_;
  const kernels::SelectedKernels selected_;
  const RealClock clock_;
  int64_t parameter_count_ = 0;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<WeightVersions> versions_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<Trainer> trainer_;
};

// `config` with its zeros replaced by what they stand for; INVALID_ARGUMENT naming field and value.
absl::StatusOr<EngineConfig> ResolveConfig(const EngineConfig& config, const ModelConfig& model);

// A path of ExportModel: relative, not empty, without "..", and below `root` once links are
// resolved. Returns the absolute path.
absl::StatusOr<std::string> ResolveExportPath(const std::string& root,
                                              const std::string& directory);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_ENGINE_CORE_H_
