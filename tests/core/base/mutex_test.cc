// Goal: locks exclude, waits end by signal or by deadline. Method: threads that count; deadlines
// that have already passed or never do, so that no outcome depends on speed.
#include "core/base/mutex.h"

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

struct Counter {
  Mutex mu;
  CondVar changed;
  int value ABSL_GUARDED_BY(mu) = 0;
};

TEST(MutexTest, ExcludesThreadsFromEachOther) {
  constexpr int kThreads = 4;
  constexpr int kIncrements = 10000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < kIncrements; ++i) {
        MutexLock lock(counter.mu);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(counter.mu);
  EXPECT_EQ(counter.value, kThreads * kIncrements);
}

TEST(MutexTest, TryLockFailsWhileHeld) {
  Mutex mutex;
  mutex.Lock();
  std::thread([&mutex] { EXPECT_FALSE(mutex.TryLock()); }).join();
  mutex.Unlock();
  if (mutex.TryLock()) {
    mutex.Unlock();
  } else {
    ADD_FAILURE() << "a free mutex was not locked";
  }
}

TEST(CondVarTest, WaitsForTheSignal) {
  Counter counter;
  std::thread setter([&counter] {
    {
      MutexLock lock(counter.mu);
      counter.value = 1;
    }
    counter.changed.SignalAll();
  });
  {
    MutexLock lock(counter.mu);
    while (counter.value == 0) counter.changed.Wait(counter.mu);
    EXPECT_EQ(counter.value, 1);
  }
  setter.join();
}

TEST(CondVarTest, DeadlineThatNeverComesWaitsForTheSignal) {
  for (const absl::Time deadline : {absl::InfiniteFuture(), absl::Now() + absl::Hours(1000000)}) {
    Counter counter;
    std::thread setter([&counter] {
      {
        MutexLock lock(counter.mu);
        counter.value = 1;
      }
      counter.changed.Signal();
    });
    {
      MutexLock lock(counter.mu);
      while (counter.value == 0) EXPECT_TRUE(counter.changed.WaitUntil(counter.mu, deadline));
    }
    setter.join();
  }
}

TEST(CondVarTest, DeadlineThatHasPassedReturnsFalseAndKeepsTheLock) {
  Counter counter;
  MutexLock lock(counter.mu);
  for (const absl::Time deadline :
       {absl::InfinitePast(), absl::UnixEpoch(), absl::Now() - absl::Nanoseconds(1)}) {
    EXPECT_FALSE(counter.changed.WaitUntil(counter.mu, deadline));
  }
  std::thread([&counter] { EXPECT_FALSE(counter.mu.TryLock()); }).join();
}

TEST(CondVarTest, DeadlineEndsTheWait) {
  Counter counter;
  MutexLock lock(counter.mu);
  const absl::Time deadline = absl::Now() + absl::Milliseconds(1);
  while (counter.changed.WaitUntil(counter.mu, deadline)) {
  }
  EXPECT_EQ(counter.value, 0);
}

}  // namespace
}  // namespace lockstep
