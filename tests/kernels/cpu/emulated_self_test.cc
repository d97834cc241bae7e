// Goal: AVX-512's kernels touch nothing beside their arrays, on any CPU; the emulated bit tests are
// too slow for AddressSanitizer. Method: the self-test's small odd shapes, in exact allocations.

#include <memory>

#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "kernels/self_test.h"
#include "kernels/serial.h"
#include "tests/kernels/cpu/backends_under_test.h"

namespace lockstep::kernels {
namespace {

TEST(EmulatedSelfTest, EqualsReference) {
  Serial serial;
  const auto backends = BackendsUnderTest();
  EXPECT_EQ(backends.size(), 3u);
  for (const auto& backend : backends) {
    EXPECT_EQ(SelfTest(serial, *backend, *CreateReferenceKernels(backend->profile())),
              absl::OkStatus())
        << backend->name();
  }
}

}  // namespace
}  // namespace lockstep::kernels
