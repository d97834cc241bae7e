// Goal: each kind of bad input is INVALID_ARGUMENT naming field and value, and changes nothing.
// Method: a real server; state_id and both digests before and after every request, and a good call
// with the same seq_id at the end.
#include <functional>
#include <limits>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/integration/tiny_requests.h"
#include "tests/support/server_process.h"

namespace lockstep {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class BadInputTest : public testing::Test {
 protected:
  BadInputTest() {
    auto server = ServerProcess::Start({"--model", TinyModelDirectory()});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = *Client::Connect(server_->address());
    const auto rollouts = Generate(*client_, MakeGenerate(11, 6, 2, 5));
    EXPECT_TRUE(rollouts.ok()) << rollouts.status();
    data_ = ToData(*rollouts);
    before_ = State();
  }

  std::string State() {
    const auto info = client_->Info();
    EXPECT_TRUE(info.ok()) << info.status();
    return info->weights().state_id() + info->weights_digest() + info->moments_digest();
  }

  void ExpectRefused(const absl::Status& status, const std::vector<std::string>& named) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const std::string& text : named) {
      EXPECT_TRUE(absl::StrContains(status.message(), text)) << text << " not in " << status;
    }
    EXPECT_EQ(State(), before_);
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  std::vector<v1::Datum> data_;
  std::string before_;
};

TEST_F(BadInputTest, Generate) {
  const auto refuse = [&](const std::vector<std::string>& named,
                          const std::function<void(v1::GenerateRequest&)>& change) {
    v1::GenerateRequest request = MakeGenerate(1, 3, 1, 4);
    change(request);
    ExpectRefused(lockstep::Generate(*client_, request).status(), named);
  };
  refuse({"prompt_token_ids", "has 0"}, [](auto& r) { r.clear_prompt_token_ids(); });
  refuse({"prompt_token_ids[1]", "259"}, [](auto& r) { r.set_prompt_token_ids(1, 259); });
  refuse({"prompt_token_ids[2]", "-1"}, [](auto& r) { r.set_prompt_token_ids(2, -1); });
  refuse({"max_tokens", "1000000", "context"}, [](auto& r) { r.set_max_tokens(1000000); });
  refuse({"max_tokens", "is 0"}, [](auto& r) { r.set_max_tokens(0); });
  refuse({"num_samples", "is 0"}, [](auto& r) { r.set_num_samples(0); });
  refuse({"temperature", "-0.5"},
         [](auto& r) { r.mutable_sampling_params()->set_temperature(-0.5f); });
  refuse({"temperature", "nan"},
         [](auto& r) { r.mutable_sampling_params()->set_temperature(kNan); });
  for (float top_p : {0.0f, -0.5f, 1.5f, kNan}) {
    refuse({"top_p"}, [top_p](auto& r) { r.mutable_sampling_params()->set_top_p(top_p); });
  }
  refuse({"top_k", "-2"}, [](auto& r) { r.mutable_sampling_params()->set_top_k(-2); });
  refuse({"min_p", "2"}, [](auto& r) { r.mutable_sampling_params()->set_min_p(2); });
  refuse({"stop_token_ids[0]", "300"}, [](auto& r) { r.add_stop_token_ids(300); });
}

TEST_F(BadInputTest, ScoreAndParity) {
  v1::ScoreRequest score;
  ExpectRefused(client_->Score(score).status(), {"sequences"});
  score.add_sequences()->add_token_ids(999);
  ExpectRefused(client_->Score(score).status(), {"sequences[0].token_ids[0]", "999"});
  score.mutable_sequences(0)->set_token_ids(0, 1);
  score.mutable_sequences(0)->mutable_sampling_params()->set_temperature(0);
  ExpectRefused(client_->Score(score).status(), {"temperature", "is 0"});

  v1::CheckParityRequest parity;
  parity.set_num_samples(0);
  ExpectRefused(client_->CheckParity(parity).status(), {"num_samples", "is 0"});
  parity.set_num_samples(1);
  parity.set_temperature(-1);
  ExpectRefused(client_->CheckParity(parity).status(), {"temperature", "-1"});
}

TEST_F(BadInputTest, TrainStep) {
  const auto refuse = [&](const std::vector<std::string>& named,
                          const std::function<void(v1::TrainStepRequest&)>& change) {
    v1::TrainStepRequest request = MakeTrainStep("run", 1, data_);
    change(request);
    ExpectRefused(client_->TrainStep(request).status(), named);
  };
  refuse({"data"}, [](auto& r) { r.clear_data(); });
  refuse({"data[1].target_tokens", "has 11", "has 10"},
         [](auto& r) { r.mutable_data(1)->add_target_tokens(1); });
  refuse({"data[0].mask"}, [](auto& r) { r.mutable_data(0)->add_mask(1); });
  refuse({"data[1].advantages[7]", "nan"},
         [](auto& r) { r.mutable_data(1)->set_advantages(7, kNan); });
  refuse({"data[1].logprobs[9]", "nan"}, [](auto& r) { r.mutable_data(1)->set_logprobs(9, kNan); });
  refuse({"data[0].model_input[2]", "-7"},
         [](auto& r) { r.mutable_data(0)->set_model_input(2, -7); });
  refuse({"data[0].sampling_params.top_p", "0.5"},
         [](auto& r) { r.mutable_data(0)->mutable_sampling_params()->set_top_p(0.5f); });
  refuse({"data[0].sampling_params.temperature", "is 0"},
         [](auto& r) { r.mutable_data(0)->mutable_sampling_params()->set_temperature(0); });
  refuse({"data[0].sampled_under.state_id", "is 3"},
         [](auto& r) { r.mutable_data(0)->mutable_sampled_under()->set_state_id("abc"); });
  refuse({"loss.kind", "77"},
         [](auto& r) { r.mutable_loss()->set_kind(static_cast<v1::LossKind>(77)); });
  refuse({"loss.kind", "UNSPECIFIED"}, [](auto& r) { r.clear_loss(); });
  refuse({"loss.clip_low_threshold", "1.5"},
         [](auto& r) { r.mutable_loss()->set_clip_low_threshold(1.5f); });
  refuse({"adamw.learning_rate", "-1"}, [](auto& r) { r.mutable_adamw()->set_learning_rate(-1); });
  refuse({"call.run_id"}, [](auto& r) { r.mutable_call()->clear_run_id(); });
  refuse({"call.seq_id", "is 0"}, [](auto& r) { r.mutable_call()->set_seq_id(0); });

  // No refused call consumed the id, and the data are good as they were.
  const auto good = client_->TrainStep(MakeTrainStep("run", 1, data_));
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_NE(State(), before_);
}

TEST_F(BadInputTest, ExportWithoutARootIsRefused) {
  v1::ExportModelRequest request;
  request.set_directory("x");
  EXPECT_EQ(client_->ExportModel(request).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep
