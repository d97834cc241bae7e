// Goal: a call that is repeated changes nothing and gets the stored answer; one out of order is
// refused and says what was expected; a caller that gives up loses nothing. Method: a real server
// with the tiny model.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/tiny_requests.h"
#include "tests/support/server_process.h"

namespace lockstep {
namespace {

class TrainingCallsTest : public testing::Test {
 protected:
  TrainingCallsTest() {
    auto server = ServerProcess::Start({"--model", TinyModelDirectory()});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = *Client::Connect(server_->address());
    const auto rollouts = Generate(*client_, MakeGenerate(11, 6, 4, 9));
    EXPECT_TRUE(rollouts.ok()) << rollouts.status();
    data_ = ToData(*rollouts);
  }

  std::string Digest() {
    const auto info = client_->Info();
    EXPECT_TRUE(info.ok());
    return info->weights_digest();
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  std::vector<v1::Datum> data_;
};

TEST_F(TrainingCallsTest, ARepeatedCallGetsTheStoredAnswer) {
  const auto first = client_->TrainStep(MakeTrainStep("run", 1, data_));
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string digest = Digest();
  const auto again = client_->TrainStep(MakeTrainStep("run", 1, data_));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), first->SerializeAsString());
  EXPECT_EQ(Digest(), digest);

  // An older one as well, as long as it is stored.
  ASSERT_TRUE(client_->TrainStep(MakeTrainStep("run", 2, data_)).ok());
  const std::string later_digest = Digest();
  EXPECT_NE(later_digest, digest);
  EXPECT_EQ(client_->TrainStep(MakeTrainStep("run", 1, data_))->SerializeAsString(),
            first->SerializeAsString());
  EXPECT_EQ(Digest(), later_digest);

  v1::TrainStepRequest other = MakeTrainStep("run", 1, data_);
  other.mutable_adamw()->set_learning_rate(0.5f);
  EXPECT_EQ(client_->TrainStep(other).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Digest(), later_digest);
}

TEST_F(TrainingCallsTest, AGapNamesTheIdExpected) {
  const std::string digest = Digest();
  const absl::Status gap = client_->TrainStep(MakeTrainStep("run", 3, data_)).status();
  EXPECT_EQ(gap.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(gap.message(), "1")) << gap;
  EXPECT_TRUE(absl::StrContains(gap.message(), "3")) << gap;
  EXPECT_EQ(Digest(), digest);
  EXPECT_TRUE(client_->TrainStep(MakeTrainStep("run", 1, data_)).ok()) << "no id was consumed";
}

TEST_F(TrainingCallsTest, OneCallAndSeveralGiveTheSameWeights) {
  const auto fused = client_->TrainStep(MakeTrainStep("run", 1, data_));
  ASSERT_TRUE(fused.ok()) << fused.status();
  const std::string digest = Digest();

  auto other =
      ServerProcess::Start({"--model", TinyModelDirectory(), "--stages=2", "--micro_batch_size=1"});
  ASSERT_TRUE(other.ok()) << other.status();
  const auto client = *Client::Connect((*other)->address());
  uint64_t seq_id = 1;
  for (const v1::Datum& datum : data_) {
    const v1::TrainStepRequest step = MakeTrainStep("another name", seq_id++, {datum});
    v1::ForwardBackwardRequest request;
    *request.mutable_call() = step.call();
    *request.mutable_data() = step.data();
    *request.mutable_loss() = step.loss();
    request.set_loss_agg_mode(step.loss_agg_mode());
    const auto response = client->ForwardBackward(request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->metrics().mismatched_tokens(), 0);
    EXPECT_GT(response->metrics().compared_tokens(), 0);
  }
  // A fused step must not swallow the gradients of others.
  EXPECT_EQ(client->TrainStep(MakeTrainStep("another name", seq_id, data_)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  v1::OptimStepRequest optim_step;
  const v1::TrainStepRequest step = MakeTrainStep("another name", seq_id, data_);
  *optim_step.mutable_call() = step.call();
  *optim_step.mutable_adamw() = step.adamw();
  const auto response = client->OptimStep(optim_step);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->metrics().grad_norm(), fused->optim_metrics().grad_norm());
  EXPECT_EQ(client->Info()->weights_digest(), digest);
  EXPECT_EQ(response->weights().state_id(), fused->weights().state_id());
}

TEST_F(TrainingCallsTest, OptimStepWithoutGradientsIsRefused) {
  v1::OptimStepRequest request;
  request.mutable_call()->set_run_id("run");
  request.mutable_call()->set_seq_id(1);
  request.mutable_adamw()->set_learning_rate(0.1f);
  EXPECT_EQ(client_->OptimStep(request).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TrainingCallsTest, ACallerThatGivesUpFindsItsAnswerLater) {
  // Enough work not to be done at once.
  std::vector<v1::Datum> data;
  for (int i = 0; i < 16; ++i) data.insert(data.end(), data_.begin(), data_.end());
  const v1::TrainStepRequest request = MakeTrainStep("run", 1, data);
  const auto given_up = client_->TrainStep(request, {.timeout = absl::Milliseconds(20)});
  const auto answer = client_->TrainStep(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->weights().weight_version(), 1u) << "applied once, whether or not it arrived";
  if (given_up.ok()) {
    EXPECT_EQ(given_up->SerializeAsString(), answer->SerializeAsString());
  }
  EXPECT_EQ(client_->Info()->weights().weight_version(), 1u);
}

}  // namespace
}  // namespace lockstep
