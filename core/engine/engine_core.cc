#include "core/engine/engine_core.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/device/worker_set.h"

namespace lockstep {
namespace {

// Profile, version of the canonical order, gradient leaves.
std::string NumericsId(kernels::Profile profile) {
  return absl::StrCat(std::string(kernels::ProfileName(profile)), "-v1-l1");
}

constexpr int64_t kSamplesMax = 1024;  // of one request

absl::StatusOr<kernels::SelectedKernels> SelectKernels(const EngineConfig& config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerSet> workers,
                            WorkerSet::Create(config.threads));
  return kernels::SelectKernels(*workers, config.instruction_set, config.profile);
}

}  // namespace

EngineCore::EngineCore(const EngineConfig& config, const ModelConfig& model,
                       kernels::SelectedKernels selected)
    : engine_config_(config), model_(model), selected_(std::move(selected)) {
  for (const ParamSpec& spec : ModelParams(model_)) parameter_count_ += spec.size();
}

absl::StatusOr<std::unique_ptr<EngineCore>> EngineCore::Create(const EngineConfig& given,
                                                               const EngineHooks& hooks) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelConfig model, ReadModelConfig(given.model_directory));
  LOCKSTEP_ASSIGN_OR_RETURN(const EngineConfig config, ResolveConfig(given, model));
  LOCKSTEP_ASSIGN_OR_RETURN(const HfDirectory directory,
                            HfDirectory::Open(given.model_directory, model));
  LOCKSTEP_ASSIGN_OR_RETURN(kernels::SelectedKernels selected, SelectKernels(config));
  if (hooks.wrap_kernels) selected.kernels = hooks.wrap_kernels(std::move(selected.kernels));

  std::unique_ptr<EngineCore> core(new EngineCore(config, model, std::move(selected)));
  PipelineOptions pipeline;
  pipeline.config = &core->model_;
  pipeline.kernels = core->selected_.kernels.get();
  pipeline.stage_count = config.stages;
  pipeline.thread_count = config.threads;
  pipeline.kv_page_count = config.kv_page_count;
  pipeline.kv_page_size = config.kv_page_size;
  LOCKSTEP_ASSIGN_OR_RETURN(core->pipeline_, Pipeline::Create(pipeline, directory));

  // A step that is skipped changes nothing and reports the digests.
  OptimizerPlan nothing;
  nothing.skip = true;
  LOCKSTEP_ASSIGN_OR_RETURN(const OptimizerReport digests, core->pipeline_->Optimize(nothing));
  WeightsState root;
  root.numerics_id = NumericsId(config.profile);
  root.state_id = RootStateId(DigestHex(digests.weights_digest), root.numerics_id);
  core->versions_ = std::make_unique<WeightVersions>(core->pipeline_.get(), root);

  BatcherLimits limits;
  limits.running_sequences_max = config.running_sequences_max;
  limits.step_tokens_max = config.step_tokens_max;
  limits.page_size = config.kv_page_size;
  limits.page_count = config.kv_page_count;
  core->batcher_ = std::make_unique<Batcher>(limits, core->pipeline_.get(), core->versions_.get());

  TrainerOptions trainer;
  trainer.micro_batch_size = config.micro_batch_size;
  trainer.page_size = config.kv_page_size;
  trainer.stored_answers_max = config.stored_answers_max;
  core->trainer_ = std::make_unique<Trainer>(trainer, core->model_, digests, core->pipeline_.get(),
                                             core->versions_.get(), &core->clock_);
  return core;
}

RequestLimits EngineCore::limits() const {
  RequestLimits limits;
  limits.vocab_size = model_.vocab_size;
  limits.context_length_max = model_.context_length_max;
  limits.num_samples_max = kSamplesMax;
  limits.data_max = engine_config_.data_max;
  return limits;
}

absl::StatusOr<ExportResult> EngineCore::Export(const std::string& directory) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path,
                            ResolveExportPath(engine_config_.export_root, directory));
  ExportResult result;
  result.path = path;
  result.weights = versions_->current();

  // All tensors first: a pipeline that fails in the middle leaves nothing behind.
  std::vector<Buffer<float>> tensors;
  for (const ParamSpec& spec : ModelParams(model_)) {
    LOCKSTEP_ASSIGN_OR_RETURN(Buffer<float> values, pipeline_->ReadTensor(spec.name));
    result.bytes += spec.size() * static_cast<int64_t>(sizeof(float));
    tensors.push_back(std::move(values));
  }
  size_t next = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      WriteHfDirectory(path, engine_config_.model_directory, model_,
                       [&](const ParamSpec&) { return tensors[next++].data(); }));
  return result;
}

}  // namespace lockstep
