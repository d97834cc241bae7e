// Goal: every RPC gets through to the engine and back, bad input is refused before it, and calls
// end well whoever ends them: client, deadline or server. Method: the real gRPC front on a free
// port over a fake engine whose answers follow from the request.
#include <cmath>
#include <future>
#include <map>
#include <thread>

#include "absl/time/clock.h"
#include "client/cpp/client.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"

namespace lockstep {
namespace {

class LockstepServiceTest : public testing::Test {
 protected:
  LockstepServiceTest() {
    auto client = Client::Connect(server_.address());
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  FakeEngine& engine() { return server_.engine(); }

  FakeServer server_;
  std::unique_ptr<Client> client_;
};

v1::GenerateRequest SmallGenerate() {
  v1::GenerateRequest request;
  request.set_request_id("r");
  request.add_prompt_token_ids(1);
  request.set_num_samples(3);
  request.set_max_tokens(20);
  request.set_seed(5);
  return request;
}

v1::TrainStepRequest SmallTrainStep() {
  v1::TrainStepRequest request;
  request.mutable_call()->set_run_id("run");
  request.mutable_call()->set_seq_id(1);
  v1::Datum& datum = *request.add_data();
  for (int i = 0; i < 3; ++i) {
    datum.add_model_input(i);
    datum.add_target_tokens(i + 1);
    datum.add_mask(i == 0 ? 0 : 1);
  }
  request.mutable_loss()->set_kind(v1::LOSS_KIND_CROSS_ENTROPY);
  request.mutable_adamw()->set_learning_rate(0.1f);
  return request;
}

// Everything that a Generate call has sent.
struct Received {
  int messages = 0;
  v1::GenerateHeader header;
  v1::GenerateSummary done;
  std::map<int, v1::SampleDelta> samples;

  bool Add(const v1::GenerateResponse& message) {
    if (messages++ == 0) header = message.header();
    if (message.has_done()) done = message.done();
    for (const v1::SampleDelta& delta : message.deltas()) {
      v1::SampleDelta& sample = samples[delta.sample_index()];
      sample.mutable_token_ids()->MergeFrom(delta.token_ids());
      sample.mutable_logprobs()->MergeFrom(delta.logprobs());
      sample.mutable_raw_logprobs()->MergeFrom(delta.raw_logprobs());
      sample.set_finish_reason(delta.finish_reason());
    }
    return true;
  }
};

void ExpectComplete(const Received& received, const v1::GenerateRequest& request) {
  EXPECT_EQ(received.header.seed_used(), request.seed());
  ASSERT_EQ(received.samples.size(), static_cast<size_t>(request.num_samples()));
  for (const auto& [index, sample] : received.samples) {
    ASSERT_EQ(sample.token_ids_size(), request.max_tokens());
    ASSERT_EQ(sample.logprobs_size(), request.max_tokens());
    ASSERT_EQ(sample.raw_logprobs_size(), request.max_tokens());
    for (int i = 0; i < request.max_tokens(); ++i) {
      ASSERT_EQ(sample.token_ids(i), FakeEngine::Token(request.seed(), index, i));
      ASSERT_EQ(sample.logprobs(i), FakeEngine::Logprob(i));
      ASSERT_EQ(sample.raw_logprobs(i), FakeEngine::RawLogprob(i));
    }
    EXPECT_EQ(sample.finish_reason(), v1::FINISH_REASON_LENGTH);
  }
  EXPECT_EQ(received.done.prompt_tokens(), request.prompt_token_ids_size());
  EXPECT_EQ(received.done.generated_tokens(),
            int64_t{request.num_samples()} * request.max_tokens());
}

TEST_F(LockstepServiceTest, GetServerInfo) {
  const auto info = client_->Info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->model().architecture(), "Fake");
  EXPECT_EQ(info->config().listen(), server_.address()) << "with the port that was bound";
  EXPECT_EQ(info->config_sources().at("listen"), "environment");
  EXPECT_EQ(info->weights().state_id().size(), 32u);
}

TEST_F(LockstepServiceTest, GenerateStreamsEverySample) {
  const v1::GenerateRequest request = SmallGenerate();
  Received received;
  const absl::Status status = client_->Generate(
      request, [&](const v1::GenerateResponse& message) { return received.Add(message); });
  ASSERT_TRUE(status.ok()) << status;
  ExpectComplete(received, request);
  EXPECT_EQ(engine().last_generate().request_id, "r");
  EXPECT_EQ(engine().last_generate().deadline, absl::InfiniteFuture());
}

TEST_F(LockstepServiceTest, ManyStreamsAtATimeWhileTrainingGoesOn) {
  constexpr int kStreams = 32;
  std::vector<v1::GenerateRequest> requests(kStreams, SmallGenerate());
  std::vector<Received> received(kStreams);
  std::vector<absl::Status> statuses(kStreams);
  std::vector<std::thread> threads;
  engine().HoldGeneration(true);
  for (int i = 0; i < kStreams; ++i) {
    requests[i].set_seed(i);
    requests[i].set_num_samples(1 + i % 4);
    requests[i].set_max_tokens(1 + i * 7);
    threads.emplace_back([&, i] {
      statuses[i] = client_->Generate(requests[i], [&, i](const v1::GenerateResponse& message) {
        return received[i].Add(message);
      });
    });
  }
  engine().WaitForRunning(kStreams);
  engine().HoldGeneration(false);
  for (int step = 1; step <= 10; ++step) {
    v1::TrainStepRequest train_step = SmallTrainStep();
    train_step.mutable_call()->set_seq_id(step);
    EXPECT_TRUE(client_->TrainStep(train_step).ok());
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kStreams; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(statuses[i].ok()) << statuses[i];
    ExpectComplete(received[i], requests[i]);
  }
  EXPECT_EQ(engine().applied_steps(), 10u);
}

TEST_F(LockstepServiceTest, ASlowReaderHoldsUpNothingAndMissesNothing) {
  v1::GenerateRequest slow = SmallGenerate();
  slow.set_num_samples(32);
  slow.set_max_tokens(20000);  // about 8 MB, more than gRPC takes while nobody reads
  Received received;
  const absl::Status status = client_->Generate(slow, [&](const v1::GenerateResponse& message) {
    // Reads nothing more until the engine has made every token.
    if (received.messages == 0) engine().WaitForRunning(0);
    return received.Add(message);
  });
  ASSERT_TRUE(status.ok()) << status;
  ExpectComplete(received, slow);
  // How many depends on what the transport took in the meantime; generate_relay_test counts them.
  EXPECT_LT(received.messages, slow.max_tokens()) << "steps are merged while nobody reads";
}

TEST_F(LockstepServiceTest, ClientCancelEndsTheRequest) {
  v1::GenerateRequest request = SmallGenerate();
  request.set_max_tokens(90000);
  const absl::Status by_callback =
      client_->Generate(request, [](const v1::GenerateResponse&) { return false; });
  EXPECT_EQ(by_callback.code(), absl::StatusCode::kCancelled);
  engine().WaitForRunning(0);

  engine().HoldGeneration(true);
  Cancellation cancellation;
  std::thread canceller([&] {
    engine().WaitForRunning(1);
    cancellation.Cancel();
  });
  const absl::Status by_thread = client_->Generate(
      request, [](const v1::GenerateResponse&) { return true; }, {.cancellation = &cancellation});
  canceller.join();
  EXPECT_EQ(by_thread.code(), absl::StatusCode::kCancelled);
  engine().WaitForRunning(0);
  EXPECT_EQ(engine().ended_requests().back().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine().started_requests(), 2);

  EXPECT_EQ(client_->Info({.cancellation = &cancellation}).status().code(),
            absl::StatusCode::kCancelled)
      << "cancelled stays cancelled";
}

TEST_F(LockstepServiceTest, DeadlineReachesTheEngineAndEndsTheRequest) {
  engine().HoldGeneration(true);
  const absl::Time before = absl::Now();
  const absl::Status status =
      client_->Generate(SmallGenerate(), [](const v1::GenerateResponse&) { return true; },
                        {.timeout = absl::Milliseconds(300)});
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  engine().WaitForRunning(0);
  // Whatever the load of the machine, the request may have come too late to start at all.
  if (engine().started_requests() == 0) return;
  // gRPC sends the deadline as a time left, in coarse units.
  EXPECT_GT(engine().last_generate().deadline, before);
  EXPECT_LT(engine().last_generate().deadline, absl::Now() + absl::Minutes(1));
}

TEST_F(LockstepServiceTest, ADeadlineOfTrainingOnlyDetachesTheCaller) {
  engine().HoldCalls(true);
  const auto response = client_->TrainStep(SmallTrainStep(), {.timeout = absl::Milliseconds(300)});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine().applied_steps(), 0u);
  // The step that was asked for is applied all the same, and the late answer hurts nobody. On a
  // machine so slow that it never arrived, a second one is.
  v1::TrainStepRequest second = SmallTrainStep();
  second.mutable_call()->set_seq_id(2);
  engine().HoldCalls(false);
  const auto later = client_->TrainStep(second);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_GE(engine().applied_steps(), 1u);
}

TEST_F(LockstepServiceTest, Score) {
  v1::ScoreRequest request;
  for (int token : {4, 5}) request.add_sequences()->add_token_ids(token);
  const auto response = client_->Score(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->scores_size(), 2);
  EXPECT_EQ(response->scores(1).logprobs(0), FakeEngine::kTrainLogprob);
}

TEST_F(LockstepServiceTest, TrainingCalls) {
  const v1::TrainStepRequest request = SmallTrainStep();
  const auto train_step = client_->TrainStep(request);
  ASSERT_TRUE(train_step.ok()) << train_step.status();
  ASSERT_EQ(train_step->results_size(), 1);
  EXPECT_TRUE(std::isnan(train_step->results(0).logprobs(0)));
  EXPECT_EQ(train_step->results(0).logprobs(2), FakeEngine::kTrainLogprob);
  EXPECT_EQ(train_step->weights().weight_version(), 1u);

  v1::ForwardBackwardRequest forward_backward;
  *forward_backward.mutable_call() = request.call();
  *forward_backward.mutable_data() = request.data();
  *forward_backward.mutable_loss() = request.loss();
  const auto gradients = client_->ForwardBackward(forward_backward);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ(gradients->metrics().token_count(), 3);

  v1::OptimStepRequest optim_step;
  *optim_step.mutable_call() = request.call();
  *optim_step.mutable_adamw() = request.adamw();
  const auto step = client_->OptimStep(optim_step);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->weights().weight_version(), 2u);
}

TEST_F(LockstepServiceTest, ParityAndExport) {
  v1::CheckParityRequest parity;
  parity.set_num_prompts(2);
  parity.set_num_samples(3);
  parity.set_max_tokens(5);
  const auto result = client_->CheckParity(parity);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->passed());
  EXPECT_EQ(result->compared_tokens(), 30);
  engine().set_parity_mismatches(4);
  EXPECT_FALSE(client_->CheckParity(parity)->passed());

  v1::ExportModelRequest export_model;
  export_model.set_directory("d");
  const auto exported = client_->ExportModel(export_model);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->path(), "/exports/d");
  EXPECT_EQ(exported->bytes(), 1234);
}

TEST_F(LockstepServiceTest, BadInputNamesTheField) {
  v1::GenerateRequest generate = SmallGenerate();
  generate.mutable_sampling_params()->set_temperature(-0.5f);
  EXPECT_EQ(
      client_->Generate(generate, [](const auto&) { return true; }),
      absl::InvalidArgumentError("sampling_params.temperature: must be >= 0 and finite, is -0.5"));
  EXPECT_EQ(engine().started_requests(), 0);

  v1::ScoreRequest score;
  score.add_sequences()->mutable_sampling_params()->set_top_p(0.5f);
  EXPECT_EQ(
      client_->Score(score).status(),
      absl::InvalidArgumentError("sequences[0].sampling_params.top_p: scores under truncation "
                                 "are not available; must be off, is 0.5"));

  v1::TrainStepRequest train_step = SmallTrainStep();
  train_step.mutable_data(0)->add_target_tokens(1);
  EXPECT_EQ(
      client_->TrainStep(train_step).status(),
      absl::InvalidArgumentError("data[0].target_tokens: has 4 elements where model_input has 3"));
  train_step = SmallTrainStep();
  train_step.clear_loss();
  EXPECT_EQ(client_->TrainStep(train_step).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine().applied_steps(), 0u);

  v1::OptimStepRequest optim_step;
  EXPECT_EQ(client_->OptimStep(optim_step).status(),
            absl::InvalidArgumentError("call.run_id: must not be empty"));
  EXPECT_EQ(client_->ExportModel({}).status(),
            absl::InvalidArgumentError("directory: must not be empty"));
}

TEST_F(LockstepServiceTest, TheEnginesRefusalsKeepTheirCode) {
  engine().RefuseGenerate(absl::ResourceExhaustedError("queue_depth_max 1024 requests wait"));
  EXPECT_EQ(client_->Generate(SmallGenerate(), [](const auto&) { return true; }),
            absl::ResourceExhaustedError("queue_depth_max 1024 requests wait"));
}

TEST(LockstepServerTest, MessagesOverTheLimitAreRefused) {
  Settings settings = FakeServerSettings();
  settings.config.set_message_size_max_mib(1);
  FakeServer server(settings);
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  v1::ScoreRequest request;
  request.add_sequences()->mutable_token_ids()->Resize(1000, 999);
  EXPECT_TRUE((*client)->Score(request).ok());
  // 200 kB there, but 1.2 MB back.
  request.mutable_sequences(0)->mutable_token_ids()->Resize(100000, 999);
  EXPECT_EQ((*client)->Score(request).status().code(), absl::StatusCode::kResourceExhausted);
  for (int i = 0; i < 7; ++i) *request.add_sequences() = request.sequences(0);
  EXPECT_EQ((*client)->Score(request).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(LockstepServerTest, ShutdownEndsRunningCalls) {
  FakeServer server;
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  server.engine().HoldGeneration(true);
  server.engine().HoldCalls(true);
  std::future<absl::Status> generate = std::async(std::launch::async, [&] {
    return (*client)->Generate(SmallGenerate(), [](const auto&) { return true; });
  });
  std::future<absl::Status> train_step = std::async(
      std::launch::async, [&] { return (*client)->TrainStep(SmallTrainStep()).status(); });
  server.engine().WaitForRunning(1);
  server.server().Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(generate.get().ok());
  EXPECT_FALSE(train_step.get().ok());
  server.engine().WaitForRunning(0);
  EXPECT_FALSE((*client)->Info({.timeout = absl::Seconds(1)}).ok());
}

TEST(LockstepServerTest, ATakenAddressIsRefused) {
  FakeServer server;
  EXPECT_EQ(CheckCanListen(server.server().address()).message(),
            "cannot listen on " + server.address() + ": Address already in use");
  FakeEngine engine;
  Settings settings = FakeServerSettings();
  settings.config.set_listen(server.address());
  EXPECT_EQ(GrpcServer::Start(engine, settings).status(),
            absl::UnavailableError("cannot listen on " + server.address()));
  EXPECT_TRUE(CheckCanListen({.host = "127.0.0.1", .port = 0}).ok());
  EXPECT_EQ(CheckCanListen({.host = "no such host", .port = 1}).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep
