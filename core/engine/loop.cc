#include "core/engine/loop.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lockstep {

Loop::Loop(EngineCore* core)
    : core_(core), queue_depth_max_(core->engine_config().queue_depth_max) {
  UpdateSnapshot();
  thread_ = std::thread([this] { Run(); });
}

Loop::~Loop() {
  Stop();
  {
    MutexLock lock(mu_);
    quit_ = true;
  }
  work_.Signal();
  thread_.join();
}

void Loop::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  work_.Signal();
}

absl::Status Loop::PostRequest(Task task) {
  {
    MutexLock lock(mu_);
    LOCKSTEP_RETURN_IF_ERROR(failure_);
    if (requests_posted_ + snapshot_.queued_requests >= queue_depth_max_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("queue_depth_max: ", queue_depth_max_, " requests wait already"));
    }
    ++requests_posted_;
    control_.push_back([this, task = std::move(task)](const absl::Status& status) {
      task(status);
      MutexLock lock(mu_);
      --requests_posted_;
      ++snapshot_.queued_requests;  // until the next snapshot counts it
    });
  }
  work_.Signal();
  return absl::OkStatus();
}

absl::Status Loop::PostTraining(Task task) {
  {
    MutexLock lock(mu_);
    LOCKSTEP_RETURN_IF_ERROR(failure_);
    if (static_cast<int64_t>(training_.size()) >= queue_depth_max_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("queue_depth_max: ", queue_depth_max_, " training calls wait already"));
    }
    training_.push_back(std::move(task));
  }
  work_.Signal();
  return absl::OkStatus();
}

void Loop::PostControl(Task task) {
  {
    MutexLock lock(mu_);
    control_.push_back(std::move(task));
  }
  work_.Signal();
}

LoopSnapshot Loop::snapshot() const {
  MutexLock lock(mu_);
  return snapshot_;
}

void Loop::Run() {
  std::deque<Task> control;
  Task training;
  absl::Status status;
  while (status.ok() && TakeTasks(&control, &training)) {
    status = Turn(std::exchange(control, {}), std::exchange(training, nullptr));
    UpdateSnapshot();
  }
  if (status.ok()) status = absl::UnavailableError("the engine is shutting down");
  EndEverything(status);
}

bool Loop::TakeTasks(std::deque<Task>* control, Task* training) {
  MutexLock lock(mu_);
  while (!stop_ && idle_ && control_.empty() && training_.empty()) work_.Wait(mu_);
  if (stop_) return false;
  *control = std::exchange(control_, {});
  if (!training_.empty()) {
    *training = std::move(training_.front());
    training_.pop_front();
  }
  return true;
}

absl::Status Loop::Turn(std::deque<Task> control, const Task& training) {
  for (const Task& task : control) task(absl::OkStatus());
  Batcher& batcher = core_->batcher();
  batcher.EndExpired(core_->clock().Now());
  // Submitted before the training call, so that stages finish it on the way; its results wait.
  const absl::Status submitted = batcher.Submit();
  UpdateSnapshot();  // a training call may take long
  if (training) training(submitted);
  LOCKSTEP_RETURN_IF_ERROR(submitted);
  if (batcher.in_flight()) LOCKSTEP_RETURN_IF_ERROR(batcher.Collect());
  return absl::OkStatus();
}

void Loop::UpdateSnapshot() {
  LoopSnapshot snapshot;
  snapshot.weights = core_->versions().current();
  snapshot.weights_digest = core_->trainer().weights_digest();
  snapshot.moments_digest = core_->trainer().moments_digest();
  snapshot.running_sequences = core_->batcher().running_sequences();
  snapshot.queued_requests = core_->batcher().waiting_jobs();
  snapshot.kv_pages_in_use = core_->batcher().pages_in_use();
  snapshot.pinned_weight_versions = core_->versions().retired_count();
  MutexLock lock(mu_);
  idle_ = core_->batcher().idle();
  snapshot_ = std::move(snapshot);
}

void Loop::EndEverything(const absl::Status& status) {
  core_->batcher().EndAll(status);
  while (true) {
    std::deque<Task> tasks;
    {
      MutexLock lock(mu_);
      failure_ = status;
      while (!quit_ && control_.empty() && training_.empty()) work_.Wait(mu_);
      if (control_.empty() && training_.empty()) return;
      tasks = std::exchange(control_, {});
      for (Task& task : std::exchange(training_, {})) tasks.push_back(std::move(task));
    }
    for (const Task& task : tasks) task(status);
  }
}

}  // namespace lockstep
