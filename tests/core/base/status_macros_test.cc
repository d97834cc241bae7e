// Goal: the macros return the first error unchanged and pass values on, move-only ones too.
#include "core/base/status_macros.h"

#include <memory>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

absl::StatusOr<std::unique_ptr<int>> Make(int value) {
  if (value < 0) return absl::InvalidArgumentError("value is negative");
  return std::make_unique<int>(value);
}

absl::Status Sum(int a, int b, int& sum) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<int> first, Make(a));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<int> second, Make(b));
  sum = *first + *second;
  return absl::OkStatus();
}

absl::StatusOr<int> SumOf(int a, int b) {
  int sum = 0;
  LOCKSTEP_RETURN_IF_ERROR(Sum(a, b, sum));
  return sum;
}

TEST(StatusMacrosTest, PassValuesOn) {
  const absl::StatusOr<int> sum = SumOf(2, 3);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(*sum, 5);
}

TEST(StatusMacrosTest, ReturnTheFirstError) {
  EXPECT_EQ(SumOf(-1, 3).status(), absl::InvalidArgumentError("value is negative"));
  EXPECT_EQ(SumOf(2, -1).status(), absl::InvalidArgumentError("value is negative"));
}

}  // namespace
}  // namespace lockstep
