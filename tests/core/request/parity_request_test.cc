// Goal: a parity result only passes when every path compared something and nothing differs.
#include "core/request/parity_request.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

ParityComparison Comparison(int64_t compared, int64_t mismatched) {
  ParityComparison comparison;
  comparison.compared_tokens = compared;
  comparison.mismatched_tokens = mismatched;
  return comparison;
}

TEST(ParityResultTest, PassesOnlyWhenEveryPathComparedAndNothingDiffers) {
  ParityResult result;
  EXPECT_FALSE(result.passed()) << "zero paths are not green";
  result.comparisons = {Comparison(10, 0), Comparison(7, 0)};
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(result.compared_tokens(), 17);
  result.comparisons.push_back(Comparison(0, 0));
  EXPECT_FALSE(result.passed()) << "zero of zero is not green";
  result.comparisons = {Comparison(10, 0), Comparison(10, 1)};
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(result.mismatched_tokens(), 1);
}

}  // namespace
}  // namespace lockstep
