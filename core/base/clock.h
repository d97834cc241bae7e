// The time, as something passed in, so that a test can set it (tests/support/fake_clock.h).
//
// Implementations are safe for use from any thread.
#ifndef LOCKSTEP_CORE_BASE_CLOCK_H_
#define LOCKSTEP_CORE_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lockstep {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// The machine's clock.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_BASE_CLOCK_H_
