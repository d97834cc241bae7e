#ifndef LOCKSTEP_CORE_DEVICE_WORKER_SET_H_
#define LOCKSTEP_CORE_DEVICE_WORKER_SET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "kernels/parallel.h"

namespace lockstep {

// The threads under one pipeline stage. The calling thread is one of them: a set of one spawns
// none. Items are cut statically into one contiguous range per thread, so that what a thread
// touched last time (its share of a weight matrix) is what it touches next time.
//
// A decode step calls For some hundreds of times, tens of microseconds apart, so an idle worker
// first spins for kSpinMax and then blocks: between operations it answers without a system call,
// between steps it costs no processor. A set with more threads than the machine has cores never
// spins, because what it waits for needs the core.
//
// Thread safety: For is called by one thread at a time, the owner; it must not be called from
// inside a body.
class WorkerSet final : public kernels::Parallel {
 public:
  // INVALID_ARGUMENT: thread_count outside [1, kThreadsMax]. RESOURCE_EXHAUSTED: the system gave
  // no more threads.
  static absl::StatusOr<std::unique_ptr<WorkerSet>> Create(int thread_count);

  // REQUIRES: no For is running.
  ~WorkerSet() override;
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  void For(int64_t items, int64_t grain,
           absl::FunctionRef<void(int64_t begin, int64_t end)> body) override;

  int thread_count() const { return static_cast<int>(workers_.size()) + 1; }

  static constexpr int kThreadsMax = 1024;

 private:
  // What one worker is to do. Written by the owner before `order` is raised, read by the worker
  // after it saw the new order; the worker's last act on it is the decrement of running_.
  struct alignas(64) Worker {
    std::atomic<uint64_t> order{0};  // one more for every range handed over
    bool stop = false;
    int64_t begin = 0;
    int64_t end = 0;
    const absl::FunctionRef<void(int64_t, int64_t)>* body = nullptr;

    Mutex mu;
    CondVar ordered;
    bool sleeping ABSL_GUARDED_BY(mu) = false;
    std::thread thread;
  };

  explicit WorkerSet(int thread_count);
  void Order(Worker& worker);
  void AwaitOrder(Worker& worker, uint64_t seen);
  void Work(Worker& worker);
  void AwaitAll();

  const bool spin_;
  std::vector<std::unique_ptr<Worker>> workers_;

  alignas(64) std::atomic<int> running_{0};  // workers with an unfinished range
  Mutex done_mu_;
  CondVar all_done_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_DEVICE_WORKER_SET_H_
