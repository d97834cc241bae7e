// One pipeline stage: a thread that owns a StageModel and executes the plans it is handed, in
// order. Nothing else touches the model once the thread runs.
//
// Thread safety: Enqueue and the destructor belong to the driver's thread.
#ifndef LOCKSTEP_CORE_PIPELINE_STAGE_H_
#define LOCKSTEP_CORE_PIPELINE_STAGE_H_

#include <memory>
#include <thread>

#include "core/base/bounded_queue.h"
#include "core/pipeline/stage_model.h"
#include "core/pipeline/step_plan.h"

namespace lockstep {

class Stage {
 public:
  // `reports` is borrowed and outlives the stage.
  Stage(std::unique_ptr<StageModel> model, BoundedQueue<StageReport>* reports);
  // Finishes the plans it holds, then joins. REQUIRES: the communicator has been shut down if a
  // plan may wait for another stage.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // RESOURCE_EXHAUSTED when kPlansMax plans wait already: the driver let too many into flight.
  absl::Status Enqueue(StagePlan plan);

  Communicator& communicator() { return model_->communicator(); }

  static constexpr int kPlansMax = 4096;

 private:
  void Run();

  const std::unique_ptr<StageModel> model_;
  BoundedQueue<StageReport>* const reports_;

  BoundedQueue<StagePlan> plans_;
  std::thread thread_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_PIPELINE_STAGE_H_
