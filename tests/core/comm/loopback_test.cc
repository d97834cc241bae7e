// Goal: tensors arrive whole and in order, a stage out of step is found out, and no wait is without
// end or without a culprit (field note B 17). Method: two or three ranks in one thread wherever
// nobody has to wait; a thread only to be woken by Shutdown.
#include "core/comm/loopback.h"

#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

// Short where the test wants the timeout, endless where it would be a failure.
constexpr absl::Duration kTiny = absl::Milliseconds(1);
constexpr absl::Duration kEndless = absl::InfiniteDuration();

Tensor MakeTensor(std::vector<int64_t> shape, float first) {
  Tensor tensor;
  tensor.shape = std::move(shape);
  tensor.data = Buffer<float>(tensor.size());
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.data[i] = first + static_cast<float>(i);
  return tensor;
}

bool Contains(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST(LoopbackTest, RanksKnowTheirGroup) {
  const auto ranks = CreateLoopbackGroup("pipeline", 3, kEndless);
  ASSERT_EQ(ranks.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank]->rank(), rank);
    EXPECT_EQ(ranks[rank]->size(), 3);
    EXPECT_EQ(ranks[rank]->group(), "pipeline");
  }
}

TEST(LoopbackTest, KeepsOrderBetweenEveryTwoRanks) {
  const auto ranks = CreateLoopbackGroup("g", 3, kEndless);
  for (uint64_t tag = 0; tag < 5; ++tag) {
    ASSERT_TRUE(ranks[0]->Send(2, tag, MakeTensor({1}, static_cast<float>(tag))).ok());
    ASSERT_TRUE(ranks[1]->Send(2, tag, MakeTensor({1}, 100.0f + static_cast<float>(tag))).ok());
    ASSERT_TRUE(ranks[2]->Send(0, tag, MakeTensor({1}, 200.0f + static_cast<float>(tag))).ok());
  }
  for (uint64_t tag = 0; tag < 5; ++tag) {
    EXPECT_EQ(ranks[2]->Receive(1, tag)->data[0], 100.0f + static_cast<float>(tag));
    EXPECT_EQ(ranks[2]->Receive(0, tag)->data[0], static_cast<float>(tag));
    EXPECT_EQ(ranks[0]->Receive(2, tag)->data[0], 200.0f + static_cast<float>(tag));
  }
}

TEST(LoopbackTest, CarriesShapesOfAnyRank) {
  const auto ranks = CreateLoopbackGroup("g", 2, kEndless);
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {7}, {3, 1}, {2, 3, 1}, {1, 1, 1, 1}, {2, 2, 2, 2, 3}, {0, 4}};
  for (const std::vector<int64_t>& shape : shapes) {
    ASSERT_TRUE(ranks[0]->Send(1, 9, MakeTensor(shape, 0.5f)).ok());
    const absl::StatusOr<Tensor> received = ranks[1]->Receive(0, 9);
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->shape, shape);
    EXPECT_EQ(received->dtype, DataType::kFloat32);
    ASSERT_EQ(received->data.size(), received->size());
    for (int64_t i = 0; i < received->size(); ++i) {
      EXPECT_EQ(received->data[i], 0.5f + static_cast<float>(i));
    }
  }
}

TEST(LoopbackTest, HandsOverTheMemoryItself) {
  const auto ranks = CreateLoopbackGroup("g", 2, kEndless);
  Tensor tensor = MakeTensor({4}, 1);
  const float* memory = tensor.data.data();
  ASSERT_TRUE(ranks[0]->Send(1, 1, std::move(tensor)).ok());
  EXPECT_EQ(ranks[1]->Receive(0, 1)->data.data(), memory);
}

TEST(LoopbackTest, AnotherTagIsInternal) {
  const auto ranks = CreateLoopbackGroup("pipeline", 2, kEndless);
  ASSERT_TRUE(ranks[0]->Send(1, 41, MakeTensor({1}, 1)).ok());
  const absl::Status status = ranks[1]->Receive(0, 42).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  for (const char* part : {"pipeline", "rank 1", "rank 0", "tag 42", "got tag 41"}) {
    EXPECT_TRUE(Contains(status, part)) << part << " in " << status;
  }
}

TEST(LoopbackTest, NothingInTimeIsUnavailableAndNamesGroupRanksTagAndLimit) {
  const auto ranks = CreateLoopbackGroup("pipeline", 3, kTiny);
  const absl::Status status = ranks[2]->Receive(1, 77).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  for (const char* part : {"pipeline", "rank 2", "receive", "rank 1", "tag 77", "1ms"}) {
    EXPECT_TRUE(Contains(status, part)) << part << " in " << status;
  }
  // The group is as it was: a tensor that comes later is received.
  ASSERT_TRUE(ranks[1]->Send(2, 78, MakeTensor({1}, 5)).ok());
  EXPECT_TRUE(ranks[2]->Receive(1, 78).ok());
}

TEST(LoopbackTest, ShutdownWakesEveryReceiver) {
  const auto ranks = CreateLoopbackGroup("pipeline", 3, kEndless);
  absl::Status first;
  absl::Status second;
  std::thread waits_for_1([&] { first = ranks[0]->Receive(1, 5).status(); });
  std::thread waits_for_0([&] { second = ranks[2]->Receive(0, 6).status(); });
  ranks[1]->Shutdown();
  waits_for_1.join();
  waits_for_0.join();
  for (const absl::Status& status : {first, second}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(Contains(status, "shut down")) << status;
  }
  EXPECT_TRUE(Contains(first, "rank 0") && Contains(first, "tag 5")) << first;
  EXPECT_TRUE(Contains(second, "rank 2") && Contains(second, "tag 6")) << second;
}

TEST(LoopbackTest, NothingGoesThroughAfterShutdown) {
  const auto ranks = CreateLoopbackGroup("g", 2, kEndless);
  ASSERT_TRUE(ranks[0]->Send(1, 1, MakeTensor({1}, 1)).ok());
  ranks[0]->Shutdown();
  ranks[1]->Shutdown();  // a second time is harmless
  EXPECT_EQ(ranks[1]->Receive(0, 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ranks[0]->Send(1, 2, MakeTensor({1}, 1)).code(), absl::StatusCode::kUnavailable);
}

TEST(LoopbackTest, LastRankToGoEndsTheGroup) {
  auto ranks = CreateLoopbackGroup("g", 2, kEndless);
  ASSERT_TRUE(ranks[0]->Send(1, 1, MakeTensor({1}, 3)).ok());
  ranks[0].reset();
  EXPECT_EQ(ranks[1]->Receive(0, 1)->data[0], 3);
}

}  // namespace
}  // namespace lockstep
