// Goal: a buffer is zeroed and aligned whatever its size, and a large one takes up memory only
// where it was written. Method: sizes around the one from which memory is mapped, written, freed
// and asked for again, so that what malloc kept comes back; the kernel's own word on which pages
// are there.
#include "core/device/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

constexpr int64_t kMapped = int64_t{32} << 20;  // bytes from which memory is mapped

TEST(BufferTest, IsZeroedAndAligned) {
  for (int round = 0; round < 2; ++round) {
    for (const int64_t size : {int64_t{1}, int64_t{63}, int64_t{65}, int64_t{1} << 20, kMapped - 1,
                               kMapped, kMapped + 1}) {
      Buffer<uint8_t> buffer(size);
      EXPECT_EQ(buffer.size(), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
      EXPECT_EQ(std::count(buffer.data(), buffer.data() + size, 0), size);
      std::fill_n(buffer.data(), size, uint8_t{0xff});
    }
  }
}

TEST(BufferTest, MovesAndReserves) {
  Buffer<float> a(kMapped / 4);
  a[3] = 5;
  Buffer<float> b = std::move(a);
  EXPECT_EQ(a.size(), 0);
  EXPECT_EQ(b[3], 5);
  const float* before = b.data();
  b.Reserve(10);
  EXPECT_EQ(b.data(), before);
  b.Reserve(kMapped);
  EXPECT_EQ(b.size(), kMapped);
  b = Buffer<float>();
  EXPECT_EQ(b.size(), 0);
}

TEST(BufferTest, WhatWasNotWrittenTakesUpNoMemory) {
  const Buffer<uint8_t> buffer(64 * kMapped);  // 2 GiB
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present(static_cast<size_t>(buffer.size()) / page);
  ASSERT_EQ(::mincore(const_cast<uint8_t*>(buffer.data()), static_cast<size_t>(buffer.size()),
                      present.data()),
            0);
  EXPECT_EQ(std::count(present.begin(), present.end(), 0), static_cast<int64_t>(present.size()));
}

}  // namespace
}  // namespace lockstep
