// Goal: the queue keeps order and its limit, refuses with the right status, and loses nothing
// between threads or at Close. Method: one thread with deadlines that have passed; then producers
// and consumers that account for every item.
#include "core/base/bounded_queue.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

const absl::Time kPassed = absl::UnixEpoch();
const absl::Time kNever = absl::InfiniteFuture();

TEST(BoundedQueueTest, KeepsOrder) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.TryPush(int{i}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*queue.Pop(kPassed), i);
}

TEST(BoundedQueueTest, FullQueueRefusesAndLeavesTheItem) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_EQ(queue.capacity(), 1u);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
  EXPECT_EQ(queue.Push(std::move(second), kPassed).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(queue.size(), 1u);
}

TEST(BoundedQueueTest, EmptyQueueRefusesAtTheDeadline) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.Pop(kPassed).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueueTest, ClosedQueueRefusesItemsAndGivesOutWhatItHas) {
  BoundedQueue<int> queue(4);
  ASSERT_TRUE(queue.TryPush(1));
  ASSERT_TRUE(queue.TryPush(2));
  queue.Close();
  queue.Close();
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(queue.Push(3, kNever).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(*queue.Pop(kNever), 1);
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.Pop(kNever).status().code(), absl::StatusCode::kCancelled);
}

TEST(BoundedQueueTest, CloseWakesAWaitingConsumerAndProducer) {
  BoundedQueue<int> empty(1);
  BoundedQueue<int> full(1);
  ASSERT_TRUE(full.TryPush(1));
  std::thread consumer(
      [&] { EXPECT_EQ(empty.Pop(kNever).status().code(), absl::StatusCode::kCancelled); });
  std::thread producer(
      [&] { EXPECT_EQ(full.Push(2, kNever).code(), absl::StatusCode::kCancelled); });
  empty.Close();
  full.Close();
  consumer.join();
  producer.join();
}

TEST(BoundedQueueTest, ManyThreadsLoseAndDoubleNothing) {
  constexpr int kProducers = 3;
  constexpr int kConsumers = 3;
  constexpr int kItemsEach = 2000;
  BoundedQueue<int> queue(7);
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kItemsEach; ++i) {
        ASSERT_TRUE(queue.Push(p * kItemsEach + i, kNever).ok());
      }
    });
  }
  std::vector<std::vector<int>> received(kConsumers);
  std::vector<std::thread> consumers;
  for (int c = 0; c < kConsumers; ++c) {
    consumers.emplace_back([&queue, &mine = received[c]] {
      for (absl::StatusOr<int> item = queue.Pop(kNever); item.ok(); item = queue.Pop(kNever)) {
        mine.push_back(*item);
      }
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();

  std::vector<int> all;
  for (const std::vector<int>& mine : received) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), static_cast<size_t>(kProducers * kItemsEach));
  for (int i = 0; i < kProducers * kItemsEach; ++i) ASSERT_EQ(all[i], i);
}

TEST(BoundedQueueDeathTest, CapacityZeroIsABug) {
  EXPECT_DEATH(BoundedQueue<int>(0), "no capacity");
}

}  // namespace
}  // namespace lockstep
