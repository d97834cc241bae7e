// Equality of floats as bits, which is what the promise is about: 0 and -0 differ, and a NaN equals
// a NaN whatever its payload.
#ifndef LOCKSTEP_TESTS_SUPPORT_SAME_BITS_H_
#define LOCKSTEP_TESTS_SUPPORT_SAME_BITS_H_

#include <bit>
#include <cstdint>
#include <ios>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace lockstep {

inline bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

// Success, or the first element that differs and the number of those that do.
inline testing::AssertionResult SameBits(absl::Span<const float> actual,
                                         absl::Span<const float> expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure()
           << actual.size() << " elements, expected " << expected.size();
  }
  size_t first = actual.size();
  size_t count = 0;
  for (size_t i = actual.size(); i-- > 0;) {
    if (SameBits(actual[i], expected[i])) continue;
    first = i;
    ++count;
  }
  if (count == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << count << " of " << actual.size() << " elements differ, the first at " << first << ": "
         << std::hexfloat << actual[first] << ", expected " << expected[first];
}

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_SAME_BITS_H_
