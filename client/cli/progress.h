// Shows how far a run of known length is: a bar that redraws itself on a terminal, else a line a
// step.
#ifndef LOCKSTEP_CLIENT_CLI_PROGRESS_H_
#define LOCKSTEP_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <iosfwd>
#include <string>

#include "absl/time/time.h"

namespace lockstep::cli {

class Progress {
 public:
  Progress(std::ostream& out, bool is_terminal, int64_t steps, absl::Time start);

  // One more step is done, at time `now`; `text` says how it went.
  void Step(const std::string& text, absl::Time now);
  // Leaves the bar's line. Also called by the destructor.
  void End();
  ~Progress() { End(); }

 private:
  std::ostream& out_;
  const bool is_terminal_;
  const int64_t steps_;
  const absl::Time start_;
  int64_t done_ = 0;
  bool is_line_open_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLIENT_CLI_PROGRESS_H_
