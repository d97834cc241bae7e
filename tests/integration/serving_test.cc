// Goal: one real server generates for many clients while it trains, pins the weights of each
// request, gives back what cancelled requests held, and stays bit-exact. Method: a server process
// with the tiny model, on one and two stages, and clients on threads.
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/integration/tiny_requests.h"
#include "tests/support/server_process.h"

namespace lockstep {
namespace {

class ServingTest : public testing::TestWithParam<int> {
 protected:
  ServingTest() {
    auto server = ServerProcess::Start(
        {"--model", TinyModelDirectory(), absl::StrCat("--stages=", GetParam())});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = *Client::Connect(server_->address());
  }

  v1::GetServerInfoResponse Info() {
    const auto info = client_->Info();
    EXPECT_TRUE(info.ok()) << info.status();
    return *info;
  }

  // Cancellation travels; each look is a round trip. The limit is for a server that never gets
  // there.
  void ExpectNothingHeld() {
    const absl::Time limit = absl::Now() + absl::Minutes(1);
    v1::GetServerInfoResponse info = Info();
    while ((info.kv_pages_in_use() > 0 || info.running_sequences() > 0 ||
            info.queued_requests() > 0) &&
           absl::Now() < limit) {
      info = Info();
    }
    EXPECT_EQ(info.kv_pages_in_use(), 0);
    EXPECT_EQ(info.running_sequences(), 0);
    EXPECT_EQ(info.queued_requests(), 0);
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

void ExpectComplete(const Rollouts& rollouts) {
  ASSERT_EQ(rollouts.samples.size(), static_cast<size_t>(rollouts.request.num_samples()));
  for (const auto& [index, sample] : rollouts.samples) {
    EXPECT_EQ(sample.token_ids_size(), rollouts.request.max_tokens());
    EXPECT_EQ(sample.logprobs_size(), sample.token_ids_size());
    EXPECT_EQ(sample.raw_logprobs_size(), sample.token_ids_size());
    EXPECT_EQ(sample.finish_reason(), v1::FINISH_REASON_LENGTH);
  }
  EXPECT_EQ(rollouts.summary.generated_tokens(),
            int64_t{rollouts.request.num_samples()} * rollouts.request.max_tokens());
}

TEST_P(ServingTest, ManyRequestsWhileTrainingSteps) {
  constexpr int kRequests = 32;
  constexpr int kSteps = 4;
  const auto first = Generate(*client_, MakeGenerate(1000, 5, 4, 12));
  ASSERT_TRUE(first.ok()) << first.status();
  const std::vector<v1::Datum> data = ToData(*first);

  std::vector<absl::StatusOr<Rollouts>> results(kRequests, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int i = 0; i < kRequests; ++i) {
    threads.emplace_back([&, i] {
      v1::GenerateRequest request = MakeGenerate(i, 1 + (i * 5) % 40, 1 + i % 3, 4 + (i * 7) % 30);
      request.mutable_sampling_params()->set_temperature(0.5f + 0.25f * static_cast<float>(i % 4));
      if (i % 5 == 1) request.mutable_sampling_params()->set_top_p(0.9f);
      if (i % 5 == 2) request.mutable_sampling_params()->set_top_k(20);
      results[i] = Generate(*client_, request);
    });
  }
  for (int step = 1; step <= kSteps; ++step) {
    const auto response = client_->TrainStep(MakeTrainStep("run", step, data));
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) break;
    EXPECT_EQ(response->weights().weight_version(), static_cast<uint64_t>(step));
    // Only the first step's gradients are taken at the weights that the data came from.
    EXPECT_EQ(response->metrics().compared_tokens(), step == 1 ? 4 * 12 : 0);
    EXPECT_EQ(response->metrics().mismatched_tokens(), 0);
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    ExpectComplete(*results[i]);
    EXPECT_EQ(results[i]->header.seed_used(), static_cast<uint64_t>(i));
    EXPECT_LE(results[i]->header.weights().weight_version(), static_cast<uint64_t>(kSteps));
  }
  ExpectNothingHeld();
  EXPECT_EQ(Info().weights().weight_version(), static_cast<uint64_t>(kSteps));

  // What ran in company and what runs alone, under the same weights, are the same bits.
  const auto alone = Generate(*client_, MakeGenerate(7, 9, 2, 10));
  std::vector<std::thread> company;
  for (int i = 0; i < 4; ++i) {
    company.emplace_back([&, i] { (void)Generate(*client_, MakeGenerate(i, 3 + i, 2, 20)); });
  }
  const auto together = Generate(*client_, MakeGenerate(7, 9, 2, 10));
  for (std::thread& thread : company) thread.join();
  ASSERT_TRUE(alone.ok());
  ASSERT_TRUE(together.ok());
  EXPECT_EQ(alone->header.weights().state_id(), together->header.weights().state_id());
  for (const auto& [index, sample] : alone->samples) {
    EXPECT_EQ(sample.SerializeAsString(), together->samples.at(index).SerializeAsString());
  }
}

TEST_P(ServingTest, CancelAndDeadlineFreeWhatWasHeld) {
  const v1::GetServerInfoResponse before = Info();
  const int context = static_cast<int>(before.model().context_length_max());
  const v1::GenerateRequest endless = MakeGenerate(1, 4, 8, context - 4);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status =
        client_->Generate(endless, [](const v1::GenerateResponse&) { return false; });
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  }
  ExpectNothingHeld();
  EXPECT_EQ(Generate(*client_, endless, {.timeout = absl::Milliseconds(200)}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  ExpectNothingHeld();
  const auto after = Generate(*client_, MakeGenerate(2, 3, 2, 5));
  ASSERT_TRUE(after.ok()) << after.status();
  ExpectComplete(*after);
  ExpectNothingHeld();
}

TEST_P(ServingTest, ParityBeforeAndAfterAStep) {
  v1::CheckParityRequest request;
  request.set_num_prompts(3);
  request.set_num_samples(2);
  request.set_max_tokens(16);
  const auto before = client_->CheckParity(request);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(before->passed()) << before->ShortDebugString();
  EXPECT_GE(before->compared_tokens(), 3 * 2 * 16);

  const auto rollouts = Generate(*client_, MakeGenerate(3, 6, 4, 8));
  ASSERT_TRUE(rollouts.ok());
  ASSERT_TRUE(client_->TrainStep(MakeTrainStep("run", 1, ToData(*rollouts))).ok());
  const auto after = client_->CheckParity(request);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(after->passed()) << after->ShortDebugString();
  EXPECT_NE(after->weights_digest(), before->weights_digest());
  EXPECT_NE(after->weights().state_id(), before->weights().state_id());
  ExpectNothingHeld();
}

TEST_P(ServingTest, StopsInTheMiddleOfWork) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      // Ends early, or not, as the signal falls.
      (void)Generate(*client_, MakeGenerate(i, 4, 4, 200));
    });
  }
  const ProcessResult result = server_->Stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

INSTANTIATE_TEST_SUITE_P(Stages, ServingTest, testing::Values(1, 2));

}  // namespace
}  // namespace lockstep
