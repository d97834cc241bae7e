// Counts what differs between two runs, bit by bit: no tolerance anywhere. A check is green when
// something was compared and nothing differs; its negative control is red when something differs.
#ifndef LOCKSTEP_TESTS_INVARIANCE_BIT_COMPARISON_H_
#define LOCKSTEP_TESTS_INVARIANCE_BIT_COMPARISON_H_

#include <bit>
#include <cstdint>
#include <ios>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/same_bits.h"

namespace lockstep {

class BitComparison {
 public:
  void Floats(const std::string& where, const std::vector<float>& actual,
              const std::vector<float>& expected) {
    Values(where, actual, expected, [](float a, float b) { return SameBits(a, b); });
  }
  template <typename T>
  void Equal(const std::string& where, const std::vector<T>& actual,
             const std::vector<T>& expected) {
    Values(where, actual, expected, [](const T& a, const T& b) { return a == b; });
  }
  void Double(const std::string& where, double actual, double expected) {
    Count(std::bit_cast<uint64_t>(actual) == std::bit_cast<uint64_t>(expected), where, 0, actual,
          expected);
  }
  void Text(const std::string& where, const std::string& actual, const std::string& expected) {
    Count(actual == expected, where, 0, actual, expected);
  }

  int64_t compared() const { return compared_; }
  int64_t differing() const { return differing_; }

  // EXPECT_TRUE(comparison.Same()): something was compared, and all of it is the same.
  testing::AssertionResult Same() const {
    if (compared_ > 0 && differing_ == 0) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << differing_ << " of " << compared_ << " values differ; first " << first_;
  }

 private:
  template <typename T, typename IsSame>
  void Values(const std::string& where, const std::vector<T>& actual,
              const std::vector<T>& expected, IsSame same) {
    Count(actual.size() == expected.size(), where + " size", 0, actual.size(), expected.size());
    for (size_t i = 0; i < actual.size() && i < expected.size(); ++i) {
      Count(same(actual[i], expected[i]), where, i, actual[i], expected[i]);
    }
  }
  template <typename T>
  void Count(bool same, const std::string& where, size_t index, const T& actual,
             const T& expected) {
    ++compared_;
    if (same || differing_++ > 0) return;
    std::ostringstream first;
    first << where << "[" << index << "]: " << std::hexfloat << actual << ", expected " << expected;
    first_ = first.str();
  }

  int64_t compared_ = 0;
  int64_t differing_ = 0;
  std::string first_ = "none";
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_INVARIANCE_BIT_COMPARISON_H_
