// A clock that stands still until a test moves it. Safe for use from any thread.
#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_CLOCK_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace lockstep {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1700000000)) : now_(start) {}

  absl::Time Now() const override {
    MutexLock lock(mu_);
    return now_;
  }

  void Advance(absl::Duration duration) {
    MutexLock lock(mu_);
    now_ += duration;
  }

 private:
  mutable Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_CLOCK_H_
