// The engine's one loop: a thread that decides what runs next. Tasks come in two lines. Control
// tasks (a new request, a cancel, a pin) run at once, between micro-batches; training tasks take
// the pipeline for as long as a call lasts, one at a time, and between two of them running streams
// get a micro-batch.
//
// Thread safety: every member may be called from any thread.
#ifndef LOCKSTEP_CORE_ENGINE_LOOP_H_
#define LOCKSTEP_CORE_ENGINE_LOOP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/engine/engine_core.h"

namespace lockstep {

// What the loop last was at, for Engine::Info.
struct LoopSnapshot {
  WeightsState weights;
  std::string weights_digest;
  std::string moments_digest;
  int64_t running_sequences = 0;
  int64_t queued_requests = 0;
  int64_t kv_pages_in_use = 0;
  int64_t pinned_weight_versions = 0;
};

class Loop {
 public:
  // Runs on the loop's thread with OK, or, when the loop has stopped or the pipeline is down, with
  // the error that says so; in that case nothing of the core may be touched.
  using Task = std::function<void(const absl::Status& status)>;

  // `core` is borrowed. Requests waiting and training calls waiting are bounded by
  // queue_depth_max each.
  explicit Loop(EngineCore* core);
  // Stops and joins.
  ~Loop();

  // Ends every job, and every task from now on, with UNAVAILABLE.
  void Stop();

  // A task that brings a request: RESOURCE_EXHAUSTED when the line is full.
  absl::Status PostRequest(Task task);
  absl::Status PostTraining(Task task);
  // A task that must get through, such as a cancel: not counted.
  void PostControl(Task task);

  LoopSnapshot snapshot() const;
  // Makes snapshot() show what the loop has come to, in the middle of a task: before an answer goes
  // out, so that whoever has it sees its effect. REQUIRES: called by a task.
  void UpdateSnapshot();

 private:
  void Run();
  // Waits while there is nothing to do. False: stop.
  bool TakeTasks(std::deque<Task>* control, Task* training);
  // Runs one turn of tasks, training and micro-batches.
  absl::Status Turn(std::deque<Task> control, const Task& training);
  // Refuses tasks until the loop is destroyed.
  void EndEverything(const absl::Status& status);

  EngineCore* const core_;
  const int64_t queue_depth_max_;

  CondVar work_;
  mutable Mutex mu_;
  std::deque<Task> control_ ABSL_GUARDED_BY(mu_);
  std::deque<Task> training_ ABSL_GUARDED_BY(mu_);
  int64_t requests_posted_ ABSL_GUARDED_BY(mu_) = 0;  // in control_, not yet run
  bool idle_ ABSL_GUARDED_BY(mu_) = true;             // no job in the batcher
  bool stop_ ABSL_GUARDED_BY(mu_) = false;            // end jobs, refuse tasks
  bool quit_ ABSL_GUARDED_BY(mu_) = false;            // nobody posts any more: leave
  absl::Status failure_ ABSL_GUARDED_BY(mu_);         // of the pipeline; final
  LoopSnapshot snapshot_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_LOOP_H_
