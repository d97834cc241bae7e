// Goal: the two counts that the start reports are Linux's. Method: lines as the kernel writes them,
// lines spoilt, and this process itself.
#include "server/resident_memory.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(ResidentMemoryTest, ReadsTheLinesOfTheKernel) {
  const auto memory =
      ParseResidentMemory("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     512 kB\nThreads:\t1\n");
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->now_bytes, 512 << 10);
  EXPECT_EQ(memory->peak_bytes, 2048 << 10);
}

TEST(ResidentMemoryTest, RefusesWhatIsMissingOrNoCount) {
  for (const char* status : {"", "VmRSS:\t 512 kB\n", "VmRSS:\t 512 kB\nVmHWM:\t 1 MB\n",
                             "VmRSS:\t x kB\nVmHWM:\t 1 kB\n"}) {
    EXPECT_EQ(ParseResidentMemory(status).status().code(), absl::StatusCode::kInvalidArgument)
        << status;
  }
}

TEST(ResidentMemoryTest, OfThisProcess) {
  const auto memory = ReadResidentMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->now_bytes, 0);
  EXPECT_GT(memory->peak_bytes, 0);
}

}  // namespace
}  // namespace lockstep
