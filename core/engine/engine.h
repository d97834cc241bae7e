#ifndef LOCKSTEP_CORE_ENGINE_ENGINE_H_
#define LOCKSTEP_CORE_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/engine_config.h"
#include "core/engine/memory_plan.h"
#include "core/model/model_config.h"
#include "core/request/generate_request.h"
#include "core/request/parity_request.h"
#include "core/request/score_request.h"
#include "core/request/train_request.h"
#include "core/request/validate.h"
#include "kernels/kernels.h"

namespace lockstep {

struct EngineInfo {
  ModelConfig model;
  int64_t parameter_count = 0;
  EngineConfig config;  // as in force: zeros replaced by what was chosen
  MemoryPlan memory;
  std::string instruction_set;
  std::string instruction_set_note;
  WeightsState weights;
  std::string weights_digest;  // 32 hexadecimal digits
  std::string moments_digest;
  int64_t running_sequences = 0;
  int64_t queued_requests = 0;
  int64_t kv_pages_in_use = 0;
  int64_t kv_pages_total = 0;
  int64_t pinned_weight_versions = 0;
};

// For test binaries alone: a place to plant faults that the checks have to find.
struct EngineHooks {
  std::function<std::unique_ptr<kernels::Kernels>(std::unique_ptr<kernels::Kernels>)> wrap_kernels;
};

struct ExportResult {
  std::string path;
  WeightsState weights;
  int64_t bytes = 0;
};

// Hosts one model: queues what clients ask, and one loop decides what runs next on the pipeline.
//
// Thread safety: every public member may be called from any thread; none blocks on compute. Calls
// hand in a callback that runs exactly once, on a thread of the engine (never inside the call that
// hands it in), and must not block. Requests are validated before they enter a queue: an error
// returned by the call itself means that nothing was queued and no callback will run.
//
// Lifetime: destruction ends every request with UNAVAILABLE and joins all threads.
class Engine {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;

  // Loads the model, tests the kernels against the reference, starts stages and loop.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineConfig& config,
                                                        const EngineHooks& hooks = {});
  virtual ~Engine() = default;

  // Handle of a queued or running generate request, for Cancel.
  using RequestHandle = uint64_t;

  // RESOURCE_EXHAUSTED when the queue is full. `observer` is kept until OnDone has returned.
  virtual absl::StatusOr<RequestHandle> Generate(GenerateRequest request,
                                                 std::shared_ptr<GenerateObserver> observer) = 0;
  // Ends a request early with CANCELLED; a no-op when it is done already.
  virtual void Cancel(RequestHandle handle) = 0;

  virtual absl::Status Score(ScoreRequest request, Callback<ScoreResult> done) = 0;
  virtual absl::Status ForwardBackward(ForwardBackwardRequest request,
                                       Callback<ForwardBackwardResult> done) = 0;
  virtual absl::Status OptimStep(OptimStepRequest request, Callback<OptimStepResult> done) = 0;
  virtual absl::Status TrainStep(TrainStepRequest request, Callback<TrainStepResult> done) = 0;
  virtual absl::Status CheckParity(ParityRequest request, Callback<ParityResult> done) = 0;
  // `directory`: relative, below export_root; INVALID_ARGUMENT when it is not, FAILED_PRECONDITION
  // without an export_root, ALREADY_EXISTS when it is there.
  virtual absl::Status ExportModel(std::string directory, Callback<ExportResult> done) = 0;

  virtual EngineInfo Info() const = 0;
  virtual const RequestLimits& limits() const = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_ENGINE_H_
