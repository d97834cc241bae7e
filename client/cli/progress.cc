#include "client/cli/progress.h"

#include <ostream>

#include "absl/strings/str_format.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kBarWidth = 30;
// Back to the first column, and erase what stood there.
constexpr char kRedraw[] = "\r\033[K";

}  // namespace

Progress::Progress(std::ostream& out, bool is_terminal, int64_t steps, absl::Time start)
    : out_(out), is_terminal_(is_terminal), steps_(steps), start_(start) {}

void Progress::Step(const std::string& text, absl::Time now) {
  ++done_;
  if (!is_terminal_) {
    out_ << "step " << done_ << "/" << steps_ << "  " << text << std::endl;
    return;
  }
  const int64_t filled = kBarWidth * done_ / steps_;
  const absl::Duration left = (now - start_) / done_ * (steps_ - done_);
  out_ << kRedraw << "[" << std::string(filled, '#') << std::string(kBarWidth - filled, '.') << "] "
       << done_ << "/" << steps_ << "  " << text << "  "
       << absl::FormatDuration(absl::Trunc(left, absl::Seconds(1))) << " left" << std::flush;
  is_line_open_ = true;
}

void Progress::End() {
  if (is_line_open_) out_ << std::endl;
  is_line_open_ = false;
}

}  // namespace lockstep::cli
