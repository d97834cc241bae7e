// Goal: a false check ends the process with its place, condition, values and message; a true one
// costs nothing and evaluates no message. Method: death tests, and messages with side effects.
#include "core/base/check.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(CheckTest, TrueConditionEvaluatesNoMessage) {
  int evaluated = 0;
  LOCKSTEP_CHECK(1 + 1 == 2) << ++evaluated;
  LOCKSTEP_CHECK_EQ(2, 2) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(CheckTest, OperandsAreEvaluatedOnce) {
  int a = 0;
  LOCKSTEP_CHECK_LT(a++, 1);
  EXPECT_EQ(a, 1);
}

TEST(CheckTest, IsOneStatementInsideIfElse) {
  bool reached_else = false;
  if (false)
    LOCKSTEP_CHECK(false);
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

TEST(CheckDeathTest, FalseConditionSaysWhereWhatAndWhy) {
  EXPECT_DEATH(LOCKSTEP_CHECK(1 > 2) << "order of " << 3,
               "check_test.cc:[0-9]+: check failed: 1 > 2 order of 3");
}

TEST(CheckDeathTest, ComparisonPrintsBothValues) {
  const int rows = 5;
  EXPECT_DEATH(LOCKSTEP_CHECK_EQ(rows, 7) << "row count", "rows == 7 \\(5 vs. 7\\) row count");
  EXPECT_DEATH(LOCKSTEP_CHECK_NE(rows, 5), "rows != 5");
  EXPECT_DEATH(LOCKSTEP_CHECK_LT(rows, 5), "rows < 5");
  EXPECT_DEATH(LOCKSTEP_CHECK_LE(rows, 4), "rows <= 4");
  EXPECT_DEATH(LOCKSTEP_CHECK_GT(rows, 5), "rows > 5");
  EXPECT_DEATH(LOCKSTEP_CHECK_GE(rows, 6), "rows >= 6");
}

}  // namespace
}  // namespace lockstep
