// Goal: a For covers [0, items) once, in contiguous ranges that respect the grain and depend on
// (items, grain, threads) alone, on the caller's thread and the set's; idle, stopped and reused
// sets neither hang nor leak. Method: every combination of small sizes for 1, 2, 3 and more threads
// than this machine can have free, counting visits; ThreadSanitizer runs this file too.
#include "core/device/worker_set.h"

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

std::unique_ptr<WorkerSet> MakeSet(int threads) {
  auto set = WorkerSet::Create(threads);
  EXPECT_TRUE(set.ok()) << set.status();
  return *std::move(set);
}

Ranges RangesOf(WorkerSet& set, int64_t items, int64_t grain) {
  Mutex mu;
  Ranges ranges;
  set.For(items, grain, [&](int64_t begin, int64_t end) {
    MutexLock lock(mu);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

class WorkerSetTest : public testing::TestWithParam<int> {};

TEST_P(WorkerSetTest, RangesCoverEveryItemOnceAndRespectTheGrain) {
  const auto set = MakeSet(GetParam());
  for (int64_t items = 0; items <= 70; ++items) {
    for (int64_t grain : {0, 1, 2, 7, 16, 100}) {
      const Ranges ranges = RangesOf(*set, items, grain);
      ASSERT_LE(ranges.size(), static_cast<size_t>(GetParam()));
      int64_t next = 0;
      for (const auto& [begin, end] : ranges) {
        ASSERT_EQ(begin, next);
        ASSERT_LT(begin, end);
        if (end != items) {
          ASSERT_GE(end - begin, grain);
        }
        next = end;
      }
      ASSERT_EQ(next, items) << "grain " << grain;
    }
  }
}

TEST_P(WorkerSetTest, EveryThreadGetsAShareWhenThereIsEnough) {
  const auto set = MakeSet(GetParam());
  EXPECT_EQ(RangesOf(*set, 30 * GetParam(), 1).size(), static_cast<size_t>(GetParam()));
}

TEST_P(WorkerSetTest, TheCutIsStatic) {
  const auto set = MakeSet(GetParam());
  const auto other = MakeSet(GetParam());
  const Ranges first = RangesOf(*set, 1001, 8);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(RangesOf(*set, 1001, 8), first);
    EXPECT_EQ(RangesOf(*other, 1001, 8), first);
  }
}

TEST_P(WorkerSetTest, TheCallerTakesTheFirstRange) {
  const auto set = MakeSet(GetParam());
  std::vector<std::thread::id> ran(4 * GetParam());
  set->For(4 * GetParam(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ran[i] = std::this_thread::get_id();
  });
  EXPECT_EQ(ran[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(ran.begin(), ran.end()).size(),
            static_cast<size_t>(GetParam()));
}

// Plain, unsynchronised memory written by one For and read by the next: what one operation wrote,
// the next must see, whichever thread reads it. Under ThreadSanitizer a missing order is a report.
TEST_P(WorkerSetTest, AForSeesWhatTheForBeforeItWrote) {
  const auto set = MakeSet(GetParam());
  constexpr int64_t kItems = 96;
  std::vector<int64_t> now(kItems, 0);
  std::vector<int64_t> next(kItems, 0);
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    set->For(kItems, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) next[i] = now[(i + 41) % kItems] + 1;
    });
    std::swap(now, next);
  }
  EXPECT_EQ(now, std::vector<int64_t>(kItems, kRounds));
}

TEST_P(WorkerSetTest, ShutsDownUnused) {
  for (int i = 0; i < 50; ++i) MakeSet(GetParam());
}

TEST_P(WorkerSetTest, ShutsDownRightAfterWork) {
  for (int i = 0; i < 50; ++i) {
    const auto set = MakeSet(GetParam());
    EXPECT_EQ(RangesOf(*set, 3, 1).back().second, 3);
  }
}

// The owner may be another thread each time, one at a time.
TEST_P(WorkerSetTest, MayChangeOwner) {
  const auto set = MakeSet(GetParam());
  for (int i = 0; i < 20; ++i) {
    std::thread owner([&] { EXPECT_EQ(RangesOf(*set, 64, 1).back().second, 64); });
    owner.join();
  }
}

// A set larger than the machine blocks at once instead of spinning; on most, 13 is such a set.
INSTANTIATE_TEST_SUITE_P(Threads, WorkerSetTest, testing::Values(1, 2, 3, 13));

TEST(WorkerSetCreateTest, RefusesThreadCountsOutsideItsLimits) {
  for (int threads : {-1, 0, WorkerSet::kThreadsMax + 1}) {
    const absl::Status status = WorkerSet::Create(threads).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

}  // namespace
}  // namespace lockstep
