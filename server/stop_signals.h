// SIGINT and SIGTERM as something a main function waits for, instead of handlers that run anywhere.
//
// One object a process, made before any thread: threads inherit that these signals are blocked.
#ifndef LOCKSTEP_SERVER_STOP_SIGNALS_H_
#define LOCKSTEP_SERVER_STOP_SIGNALS_H_

#include <csignal>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace lockstep {

class StopSignals {
 public:
  StopSignals();

  // Returns the name of the signal that came.
  std::string Wait();

  // Runs `work` on a thread of its own and returns true when it has ended; false when it has not
  // after `limit`, or when another stop signal asks to hurry. The thread then runs on: all that is
  // left to do is to leave the process.
  bool RunUnlessHurried(std::function<void()> work, absl::Duration limit);

 private:
  sigset_t signals_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_STOP_SIGNALS_H_
