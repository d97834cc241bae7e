#include "core/device/worker_set.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// Two operations of a decode step are a few microseconds of serial work apart; 20 covers them, and
// is what one sleep and wake-up through the kernel would cost anyway.
constexpr std::chrono::microseconds kSpinMax{20};
// A look at the clock costs about as much as this many pauses.
constexpr int kPausesPerClockLook = 8;

// Spins until `done()` or kSpinMax has passed; returns whether it is done.
template <typename Done>
bool SpinUntil(Done done) {
  const auto give_up = std::chrono::steady_clock::now() + kSpinMax;
  do {
    for (int i = 0; i < kPausesPerClockLook; ++i) {
      if (done()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < give_up);
  return done();
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSet>> WorkerSet::Create(int thread_count) {
  if (thread_count < 1 || thread_count > kThreadsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: ", thread_count, " is outside [1, ", kThreadsMax, "]"));
  }
  auto set = absl::WrapUnique(new WorkerSet(thread_count));
  for (auto& worker : set->workers_) {
    try {
      worker->thread = std::thread([&set = *set, &worker = *worker] { set.Work(worker); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start ", thread_count, " threads: ", error.what()));
    }
  }
  return set;
}

WorkerSet::WorkerSet(int thread_count)
    : spin_(thread_count <= static_cast<int>(std::thread::hardware_concurrency())) {
  for (int i = 1; i < thread_count; ++i) workers_.push_back(std::make_unique<Worker>());
}

WorkerSet::~WorkerSet() {
  for (auto& worker : workers_) {
    if (!worker->thread.joinable()) continue;  // Create failed before it was started
    worker->stop = true;
    Order(*worker);
    worker->thread.join();
  }
}

void WorkerSet::For(int64_t items, int64_t grain,
                    absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (items <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  // Multiples of the grain, so that a range begins where the kernel would begin a tile.
  const int64_t range = CeilDivide(CeilDivide(items, grain), thread_count()) * grain;
  const int others = static_cast<int>(CeilDivide(items, range)) - 1;
  running_.store(others, std::memory_order_relaxed);
  for (int i = 0; i < others; ++i) {
    Worker& worker = *workers_[i];
    worker.begin = (i + 1) * range;
    worker.end = std::min(items, worker.begin + range);
    worker.body = &body;
    Order(worker);
  }
  body(0, std::min(items, range));
  if (others > 0) AwaitAll();
}

void WorkerSet::Order(Worker& worker) {
  bool wake;
  {
    MutexLock lock(worker.mu);
    worker.order.fetch_add(1, std::memory_order_release);
    wake = worker.sleeping;
  }
  if (wake) worker.ordered.Signal();
}

void WorkerSet::AwaitOrder(Worker& worker, uint64_t seen) {
  const auto ordered = [&] { return worker.order.load(std::memory_order_acquire) != seen; };
  if (spin_ && SpinUntil(ordered)) return;
  MutexLock lock(worker.mu);
  worker.sleeping = true;
  while (!ordered()) worker.ordered.Wait(worker.mu);
  worker.sleeping = false;
}

void WorkerSet::Work(Worker& worker) {
  for (uint64_t seen = 0;; ++seen) {
    AwaitOrder(worker, seen);
    if (worker.stop) return;
    (*worker.body)(worker.begin, worker.end);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      // Under the lock, so that it cannot fall between the owner's last look and its wait.
      MutexLock lock(done_mu_);
      all_done_.Signal();
    }
  }
}

void WorkerSet::AwaitAll() {
  const auto done = [&] { return running_.load(std::memory_order_acquire) == 0; };
  if (spin_ && SpinUntil(done)) return;
  MutexLock lock(done_mu_);
  while (!done()) all_done_.Wait(done_mu_);
}

}  // namespace lockstep
