#include "core/base/mutex.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace lockstep {
namespace {

// A wait is cut into pieces no longer than this, so that adding it to the steady clock cannot
// overflow.
constexpr absl::Duration kLongestWait = absl::Hours(24);

}  // namespace

void CondVar::Wait(Mutex& mutex) {
  // The caller holds the mutex and still holds it on return; the lock object only lends it to the
  // wait.
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  condition_.wait(lock);
  lock.release();
}

bool CondVar::WaitUntil(Mutex& mutex, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) {
    Wait(mutex);
    return true;
  }
  const absl::Duration remaining = deadline - absl::Now();
  if (remaining <= absl::ZeroDuration()) return false;
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  const std::cv_status status =
      condition_.wait_until(lock, std::chrono::steady_clock::now() +
                                      absl::ToChronoNanoseconds(std::min(remaining, kLongestWait)));
  lock.release();
  return status == std::cv_status::no_timeout || remaining > kLongestWait;
}

}  // namespace lockstep
