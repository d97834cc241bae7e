// The driver of the pipeline: hands plans to every stage and gathers what they report. The engine
// loop is its only user.
//
// Plans run on every stage in the order they were submitted here. Inference plans may be in flight
// side by side, so that stages work on different ones; the training calls wait for their answer
// and put inference answers that come meanwhile aside.
//
// Errors: a stage that fails ends the pipeline. From then on every call returns UNAVAILABLE with
// the first failure.
//
// Thread compatible: one thread at a time.
#ifndef LOCKSTEP_CORE_PIPELINE_PIPELINE_H_
#define LOCKSTEP_CORE_PIPELINE_PIPELINE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/bounded_queue.h"
#include "core/model/hf_directory.h"
#include "core/pipeline/stage.h"
#include "core/pipeline/step_plan.h"

namespace lockstep {

struct PipelineOptions {
  const ModelConfig* config = nullptr;        // borrowed
  const kernels::Kernels* kernels = nullptr;  // borrowed
  int64_t stage_count = 1;
  int64_t thread_count = 1;  // over all stages; every stage has at least one
  int64_t kv_page_count = 0;
  int64_t kv_page_size = 16;
  // How long a stage waits for a neighbour before it calls it dead. Longer than the longest
  // micro-batch by far; a healthy pipeline never meets it.
  absl::Duration receive_timeout = absl::Minutes(10);
};

struct FinishedInference {
  uint64_t id = 0;
  std::vector<LogitsResult> results;  // one per LogitsRow
  NonFiniteRows non_finite;           // of all rows, and the first place that any stage met
};

// Sums of squares of the accumulated gradients, one per tensor of the model in canonical order.
using SumsOfSquares = std::vector<double>;

class Pipeline {
 public:
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(const PipelineOptions& options,
                                                          const HfDirectory& directory);
  ~Pipeline();

  // Numbers the plan and returns its id.
  absl::StatusOr<uint64_t> Submit(InferencePlan plan);
  int64_t inference_in_flight() const { return inference_in_flight_; }
  // Waits for the oldest inference plan in flight. REQUIRES: there is one.
  absl::StatusOr<FinishedInference> NextInference();

  // The last stage's outputs, one entry per micro-batch.
  absl::StatusOr<TrainingReport> Train(TrainingPlan plan);
  absl::StatusOr<SumsOfSquares> GradientNorm();
  // Digests over the whole model after the step.
  absl::StatusOr<OptimizerReport> Optimize(OptimizerPlan plan);
  // Cannot be answered; a failure shows in the next call.
  void ReleaseWeights(uint64_t version);
  // A copy of a master tensor, row-major. NOT_FOUND: the model has no tensor of that name.
  absl::StatusOr<Buffer<float>> ReadTensor(const std::string& name);

  int64_t stage_count() const { return static_cast<int64_t>(stages_.size()); }

 private:
  explicit Pipeline(const ModelConfig& config);

  // The same plan to every stage.
  absl::Status Broadcast(const StagePlan& plan);
  // Waits for `count` reports on plan `id`, ordered by stage. Inference reports are put aside.
  absl::StatusOr<std::vector<StageReport>> Await(uint64_t id, int64_t count);
  absl::StatusOr<StageReport> NextReport();
  // Files an inference report, of the last stage under finished_.
  void TakeInference(StageReport report);

  const ModelConfig& config_;
  BoundedQueue<StageReport> reports_;
  std::vector<std::unique_ptr<Stage>> stages_;

  absl::Status failure_;  // the first
  uint64_t next_id_ = 1;
  int64_t inference_in_flight_ = 0;
  std::deque<FinishedInference> finished_;        // answered, not taken yet
  std::map<uint64_t, NonFiniteRows> non_finite_;  // of plans in flight, by their id
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_PIPELINE_H_
