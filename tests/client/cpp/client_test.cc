// Goal: the client says clearly that no server is there, and is shared safely by threads. What each
// call carries is shown by tests/server/lockstep_service_test.cc.
#include "client/cpp/client.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/fake_server.h"

namespace lockstep {
namespace {

TEST(ClientTest, NoServer) {
  std::string address;
  {
    FakeServer server;
    address = server.address();
  }
  const auto client = Client::Connect(address, absl::Milliseconds(50));
  EXPECT_EQ(client.status(), absl::UnavailableError("no server answers on " + address));
}

TEST(ClientTest, AServerThatGoesAway) {
  auto server = std::make_unique<FakeServer>();
  const auto client = Client::Connect(server->address());
  ASSERT_TRUE(client.ok());
  server.reset();
  EXPECT_EQ((*client)->Info().status().code(), absl::StatusCode::kUnavailable);
}

TEST(ClientTest, OneClientManyThreads) {
  FakeServer server;
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&client, i] {
      v1::GenerateRequest request;
      request.add_prompt_token_ids(i);
      request.set_seed(i);
      int tokens = 0;
      const absl::Status status =
          (*client)->Generate(request, [&](const v1::GenerateResponse& message) {
            for (const v1::SampleDelta& delta : message.deltas()) {
              for (int token : delta.token_ids()) {
                EXPECT_EQ(token, FakeEngine::Token(i, 0, tokens++));
              }
            }
            return true;
          });
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(tokens, 16);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ClientTest, CancelledBeforeTheCallBegins) {
  FakeServer server;
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  Cancellation cancellation;
  cancellation.Cancel();
  EXPECT_EQ((*client)->Info({.cancellation = &cancellation}).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(ClientTest, DeadlineOfAUnaryCall) {
  FakeServer server;
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  server.engine().HoldCalls(true);
  v1::ScoreRequest request;
  request.add_sequences()->add_token_ids(1);
  EXPECT_EQ((*client)->Score(request, {.timeout = absl::Milliseconds(100)}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace lockstep
