// Goal: a bar that redraws itself on a terminal, plain lines elsewhere. Method: times passed in.
#include "client/cli/progress.h"

#include <sstream>

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1700000000);

TEST(ProgressTest, PlainLines) {
  std::ostringstream out;
  {
    Progress progress(out, false, 2, kStart);
    progress.Step("loss 2", kStart + absl::Seconds(1));
    progress.Step("loss 1", kStart + absl::Seconds(2));
  }
  EXPECT_EQ(out.str(), "step 1/2  loss 2\nstep 2/2  loss 1\n");
}

TEST(ProgressTest, BarOnATerminal) {
  std::ostringstream out;
  {
    Progress progress(out, true, 3, kStart);
    progress.Step("a", kStart + absl::Seconds(10));
    EXPECT_EQ(out.str(), "\r\033[K[##########....................] 1/3  a  20s left");
    progress.Step("b", kStart + absl::Seconds(20));
    out.str("");
    progress.Step("c", kStart + absl::Seconds(30));
    EXPECT_EQ(out.str(), "\r\033[K[##############################] 3/3  c  0 left");
    out.str("");
  }
  EXPECT_EQ(out.str(), "\n") << "leaves the bar's line once";
}

}  // namespace
}  // namespace lockstep::cli
